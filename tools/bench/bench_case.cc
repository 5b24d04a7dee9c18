#include "tools/bench/bench_case.h"

namespace syncline::tools {

ConstTensorView BenchCase::input() const {
  if (o_.kind == Collective::kAllGather || o_.kind == Collective::kGather) {
    return {in_place_ ? in_.at(own_offset()) : in_.get(), block_, o_.type};
  }
  return {in_.get(), total_, o_.type};
}

TensorView BenchCase::output() const {
  if (o_.kind == Collective::kReduceScatter || o_.kind == Collective::kScatter) {
    return {in_place_ ? in_.at(own_offset()) : out_.get(), block_, o_.type};
  }
  return {in_place_ ? in_.get() : out_.get(), total_, o_.type};
}

void BenchCase::prepare() {
  const Pattern filler = Pattern::filler(o_.type);
  filler.fill(in_.get(), total_);
  if (!in_place_) filler.fill(out_.get(), total_);
  const ConstTensorView in = input();
  input_of(rank_).fill(const_cast<void*>(in.data()), in.count());
}

void BenchCase::run(const CallOptions& call) {
  switch (o_.kind) {
    case Collective::kAllReduce:
      return world_.all_reduce(input(), output(), o_.op, call).wait();
    case Collective::kReduceScatter:
      return world_.reduce_scatter(input(), output(), o_.op, call).wait();
    case Collective::kAllGather:
      return world_.all_gather(input(), output(), call).wait();
    case Collective::kBroadcast:
      return world_.broadcast(output(), o_.root, call).wait();
    case Collective::kReduce:
      return world_.reduce(input(), output(), o_.root, o_.op, call).wait();
    case Collective::kBarrier:
      return world_.barrier(call).wait();
    case Collective::kGather:
      return world_.gather(input(), output(), o_.root, call).wait();
    case Collective::kScatter:
      return world_.scatter(input(), output(), o_.root, call).wait();
    case Collective::kAllToAll:
      return world_.all_to_all(input(), output(), call).wait();
  }
}

std::uint64_t BenchCase::count_wrong_blocks(std::size_t first) const {
  std::uint64_t wrong = 0;
  for (std::size_t r = 0; r < n_; ++r) {
    const auto* const block =
        static_cast<const std::byte*>(output().data()) + r * block_ * size_of(o_.type);
    wrong += input_of(r).count_wrong(block, block_, first);
  }
  return wrong;
}

std::uint64_t BenchCase::count_wrong() const {
  const TensorView out = output();
  const Pattern reduced = Pattern::reduced(o_.type, o_.op, static_cast<int>(n_));
  switch (o_.kind) {
    case Collective::kAllReduce:
      return reduced.count_wrong(out.data(), total_);
    case Collective::kReduceScatter:
      return reduced.count_wrong(out.data(), block_, rank_ * block_);
    case Collective::kGather:
      return is_root() ? count_wrong_blocks(0) : 0;
    case Collective::kAllGather:
      return count_wrong_blocks(0);
    case Collective::kAllToAll:
      return count_wrong_blocks(rank_ * block_);
    case Collective::kScatter:
      return input_of(static_cast<std::size_t>(o_.root))
          .count_wrong(out.data(), block_, rank_ * block_);
    case Collective::kBroadcast:
      return input_of(static_cast<std::size_t>(o_.root)).count_wrong(out.data(), total_);
    case Collective::kReduce: {
      if (is_root()) return reduced.count_wrong(out.data(), total_);
      const Pattern untouched = in_place_ ? input_of(rank_) : Pattern::filler(o_.type);
      return untouched.count_wrong(out.data(), total_);
    }
    case Collective::kBarrier:
      break;
  }
  return 0;
}

}  // namespace syncline::tools
