#include "tools/bench/measure.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <new>

#include "base/clock.h"
#include "plan/partition.h"
#include "tools/bench/bandwidth.h"
#include "tools/bench/format.h"
#include "tools/bench/pattern.h"

namespace syncline::tools {
namespace {

constexpr double kBatchMicros =
    4;  // a sample lasts at least so long: a clock read is then below 1% of it
constexpr std::int64_t kBatchMax = 64;

// Page-aligned memory, touched once so that no page fault falls into the timed part.
class Memory {
 public:
  explicit Memory(std::size_t bytes) {
    const std::size_t whole = (bytes / 4096 + 1) * 4096;
    data_ = std::aligned_alloc(4096, whole);
    if (data_ == nullptr) throw std::bad_alloc();
    std::fill_n(static_cast<char*>(data_), whole, '\0');
  }
  ~Memory() { std::free(data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void* get() const { return data_; }
  std::byte* at(std::size_t offset) const { return static_cast<std::byte*>(data_) + offset; }

 private:
  void* data_;
};

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double max_over_ranks(Communicator& world, double value) {
  world.all_reduce(TensorView(&value, 1), ReduceOp::kMax).wait();
  return value;
}

// Confined: one operation at one size on one rank. Input and output lie where the way of calling
// wants them.
class Case {
 public:
  Case(Communicator& world, const BenchOptions& options, std::uint64_t bytes, bool in_place)
      : world_(world),
        o_(options),
        in_place_(in_place),
        n_(static_cast<std::size_t>(world.size())),
        rank_(static_cast<std::size_t>(world.rank())),
        total_(bytes / size_of(options.type)),
        block_(plan::has_blocks(o_.kind) ? total_ / n_ : total_),
        in_(std::max<std::size_t>(bytes, 1)),
        out_(in_place ? 1 : std::max<std::size_t>(bytes, 1)) {}

  static bool exists(Collective kind, bool in_place) {
    if (kind == Collective::kAllToAll) return !in_place;
    if (kind == Collective::kBarrier || kind == Collective::kBroadcast) return in_place;
    return true;
  }

  std::size_t block() const { return block_; }
  void prepare();
  void run();
  // Wrong elements on this rank after prepare() and one run().
  std::uint64_t count_wrong() const;

 private:
  std::size_t own_offset() const { return rank_ * block_ * size_of(o_.type); }
  // Block r of the output against rank r's input from element `first` on.
  std::uint64_t count_wrong_blocks(std::size_t first) const;
  bool is_root() const { return static_cast<int>(rank_) == o_.root; }
  ConstTensorView input() const;
  TensorView output() const;
  Pattern input_of(std::size_t rank) const {
    return Pattern::input(o_.type, o_.op, static_cast<int>(rank), static_cast<int>(n_));
  }

  Communicator& world_;
  const BenchOptions& o_;
  const bool in_place_;
  const std::size_t n_, rank_, total_, block_;
  Memory in_, out_;
};

ConstTensorView Case::input() const {
  if (o_.kind == Collective::kAllGather || o_.kind == Collective::kGather) {
    return {in_place_ ? in_.at(own_offset()) : in_.get(), block_, o_.type};
  }
  return {in_.get(), total_, o_.type};
}

TensorView Case::output() const {
  if (o_.kind == Collective::kReduceScatter || o_.kind == Collective::kScatter) {
    return {in_place_ ? in_.at(own_offset()) : out_.get(), block_, o_.type};
  }
  return {in_place_ ? in_.get() : out_.get(), total_, o_.type};
}

void Case::prepare() {
  const Pattern filler = Pattern::filler(o_.type);
  filler.fill(in_.get(), total_);
  if (!in_place_) filler.fill(out_.get(), total_);
  const ConstTensorView in = input();
  input_of(rank_).fill(const_cast<void*>(in.data()), in.count());
}

void Case::run() {
  switch (o_.kind) {
    case Collective::kAllReduce:
      return world_.all_reduce(input(), output(), o_.op).wait();
    case Collective::kReduceScatter:
      return world_.reduce_scatter(input(), output(), o_.op).wait();
    case Collective::kAllGather:
      return world_.all_gather(input(), output()).wait();
    case Collective::kBroadcast:
      return world_.broadcast(output(), o_.root).wait();
    case Collective::kReduce:
      return world_.reduce(input(), output(), o_.root, o_.op).wait();
    case Collective::kBarrier:
      return world_.barrier().wait();
    case Collective::kGather:
      return world_.gather(input(), output(), o_.root).wait();
    case Collective::kScatter:
      return world_.scatter(input(), output(), o_.root).wait();
    case Collective::kAllToAll:
      return world_.all_to_all(input(), output()).wait();
  }
}

std::uint64_t Case::count_wrong_blocks(std::size_t first) const {
  std::uint64_t wrong = 0;
  for (std::size_t r = 0; r < n_; ++r) {
    const auto* const block =
        static_cast<const std::byte*>(output().data()) + r * block_ * size_of(o_.type);
    wrong += input_of(r).count_wrong(block, block_, first);
  }
  return wrong;
}

std::uint64_t Case::count_wrong() const {
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

// Operations per sample, the same on all ranks.
std::int64_t choose_batch(Communicator& world, Case& test, int warmup) {
  const Nanos begin = monotonic_now();
  for (int i = 0; i < warmup; ++i) test.run();
  const double each_us = static_cast<double>(monotonic_now() - begin) / 1e3 / std::max(warmup, 1);
  const double slowest_us = max_over_ranks(world, std::max(each_us, 0.01));
  return std::clamp(static_cast<std::int64_t>(std::ceil(kBatchMicros / slowest_us)),
                    std::int64_t{1}, kBatchMax);
}

std::int64_t verify(Communicator& world, Case& test) {
  test.prepare();
  test.run();
  auto wrong = static_cast<std::int64_t>(test.count_wrong());
  world.all_reduce(TensorView(&wrong, 1), ReduceOp::kSum).wait();
  return wrong;
}

Timing time_case(Communicator& world, const BenchOptions& options, std::uint64_t bytes,
                 bool in_place) {
  Case test(world, options, bytes, in_place);
  Timing timing;
  const bool check = options.check && options.kind != Collective::kBarrier;
  if (check) timing.wrong = verify(world, test);
  test.prepare();
  const std::int64_t batch = choose_batch(world, test, options.warmup);
  std::vector<double> samples(static_cast<std::size_t>(options.iterations));
  world.barrier().wait();
  const double cpu_begin = cpu_seconds();
  const Nanos begin = monotonic_now();
  Nanos last = begin;
  for (double& sample : samples) {
    for (std::int64_t i = 0; i < batch; ++i) test.run();
    const Nanos now = monotonic_now();
    sample = static_cast<double>(now - last) / 1e3 / static_cast<double>(batch);
    last = now;
  }
  const double operations = static_cast<double>(batch) * options.iterations;
  timing.cpu_us = (cpu_seconds() - cpu_begin) * 1e6 / operations;
  timing.mean_us = max_over_ranks(world, static_cast<double>(last - begin) / 1e3 / operations);
  timing.min_us = percentile(samples, 0);
  timing.p50_us = percentile(samples, 0.5);
  timing.p99_us = percentile(samples, 0.99);
  timing.max_us = percentile(samples, 1);
  const Bandwidth speed = bandwidth(to_string(options.kind), world.size(),
                                    static_cast<double>(bytes), timing.mean_us * 1e-6);
  timing.algbw_gbs = speed.algbw_gbs;
  timing.busbw_gbs = speed.busbw_gbs;
  if (check) timing.wrong += verify(world, test);
  return timing;
}

}  // namespace

Row measure(Communicator& world, const BenchOptions& options, std::uint64_t bytes) {
  const auto total = static_cast<std::size_t>(bytes / size_of(options.type));
  const bool in_blocks = plan::has_blocks(options.kind);
  Row row;
  row.bytes = bytes;
  row.count = in_blocks ? total / static_cast<std::size_t>(world.size()) : total;
  const PlanInfo plan = world.plan(options.kind, options.type, total);
  row.schedule = plan.schedule;
  row.transport = plan.transport;
  row.predicted_us = plan.predicted_us;
  if (Case::exists(options.kind, false)) row.out_of_place = time_case(world, options, bytes, false);
  if (Case::exists(options.kind, true)) row.in_place = time_case(world, options, bytes, true);
  return row;
}

BenchReport measure_all(Communicator& world, const BenchOptions& options, int local_ranks) {
  if (options.root < 0 || options.root >= world.size()) {
    throw Error(Status(Code::kInvalidArgument, "--root " + std::to_string(options.root) +
                                                   ": there are ranks 0 to " +
                                                   std::to_string(world.size() - 1)));
  }
  BenchReport report;
  report.options = options;
  report.ranks = world.size();
  report.local_ranks = local_ranks;
  report.machine = machine_line();
  for (const std::uint64_t bytes : sizes(options, world.size())) {
    report.rows.push_back(measure(world, options, bytes));
  }
  return report;
}

}  // namespace syncline::tools
