#include "ps/round_sums.h"

#include <algorithm>

#include "kernels/reduce.h"

namespace syncline::ps {
namespace {

bool is_weighable(DType type) {
  return type == DType::kF32 || type == DType::kF64 || type == DType::kF16 || type == DType::kBF16;
}

}  // namespace

std::size_t RoundSums::wide_bytes() const {
  return count_ * size_of(kernels::accumulate_type(type_));
}

Buffer RoundSums::widen(Buffer data) {
  if (kernels::accumulate_type(type_) == type_) return data;
  Buffer wide = buffers_->take(wide_bytes());
  kernels::copy(type_, {wide.get(), true}, {data.get(), false}, count_);
  buffers_->give(std::move(data), count_ * size_of(type_));
  return wide;
}

void RoundSums::keep(Contribution contribution, std::uint64_t age) {
  const auto [at, made] = open_.try_emplace(
      contribution.clock, Open{CanonicalSum(workers_, type_, count_, *buffers_), {}, 0});
  Open& open = at->second;
  ++open.pushes;
  RoundSum& sum = open.so_far;
  sum.samples += contribution.samples;
  sum.age = std::max(sum.age, age);
  bool wide = contribution.summed;
  if (contribution.summed) {
    // Of what is not weighted each contribution has one sample.
    sum.contributions += static_cast<std::uint64_t>(contribution.samples);
    sum.weighted = sum.weighted || contribution.weighted;
  } else {
    ++sum.contributions;
    if (contribution.samples != 1 && is_weighable(type_)) {
      const DType wide_type = kernels::accumulate_type(type_);
      contribution.data = widen(std::move(contribution.data));
      kernels::scale(wide_type, contribution.data.get(), contribution.data.get(), count_,
                     contribution.samples);
      wide = true;
      sum.weighted = true;
    }
  }
  open.sum.add(contribution.worker, contribution.layer, std::move(contribution.data), wide);
}

RoundSum RoundSums::take(std::uint64_t clock) {
  const auto at = open_.find(clock);
  if (at == open_.end()) return {};
  Open open = std::move(at->second);
  open_.erase(at);
  open.so_far.data = open.sum.finish();
  return open.so_far;
}

std::vector<RoundSum> RoundSums::take_parts(std::uint64_t clock) {
  std::vector<RoundSum> parts;
  const auto at = open_.find(clock);
  if (at == open_.end()) return parts;
  Open open = std::move(at->second);
  open_.erase(at);
  for (Buffer& layer : open.sum.finish_layers()) {
    RoundSum part;
    part.data = std::move(layer);
    part.weighted = open.so_far.weighted;
    parts.push_back(std::move(part));
  }
  if (parts.empty()) return parts;
  parts.back().samples = open.so_far.samples;
  parts.back().contributions = open.so_far.contributions;
  return parts;
}

std::uint64_t RoundSums::held_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [clock, open] : open_) bytes += open.pushes * wide_bytes();
  return bytes;
}

}  // namespace syncline::ps
