#include "transport/store_choice.h"

#include <algorithm>

namespace syncline::transport {
namespace {

constexpr std::uint64_t kUnitBytes = 4 << 10;

Stores other_than(Stores stores) {
  return stores == Stores::kCached ? Stores::kStreaming : Stores::kCached;
}

}  // namespace

void SmoothedCost::note(std::uint64_t ticks, std::size_t bytes) {
  const std::uint64_t sample = std::max<std::uint64_t>(1, ticks * kUnitBytes / bytes);
  if (value_ == 0) {
    value_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(sample, UINT32_MAX / 4));
    return;
  }
  const std::uint64_t old = value_;
  const std::uint64_t near = std::clamp(sample, old / 2, 2 * old);
  value_ = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, (7 * old + near) / 8));
}

// 0: not known.
std::uint64_t StoreChoice::cost(Stores stores) const {
  const auto i = static_cast<std::size_t>(stores);
  const std::uint64_t write = write_costs_[i].value();
  return write == 0 || read_costs_[i] == 0 ? 0 : write + read_costs_[i];
}

void StoreChoice::wrote(std::size_t bytes, std::uint64_t write_ticks,
                        const std::array<std::uint32_t, kStoresCount>& read_costs) {
  read_costs_ = read_costs;
  if (timed()) write_costs_[static_cast<std::size_t>(current_)].note(write_ticks, bytes);
  phase_bytes_ += bytes;
  const bool trying = current_ != settled_;
  if (phase_bytes_ < lap_bytes_ * (trying ? kLapsOfTry : kLapsBetweenTries)) return;
  current_ = other_than(settled_);
  if (trying) {
    const std::uint64_t tried = cost(current_);
    const std::uint64_t usual = cost(settled_);
    // A tenth better, so that equals do not take turns.
    if (tried != 0 && usual != 0 && 10 * tried < 9 * usual) settled_ = current_;
    current_ = settled_;
  }
  phase_bytes_ = 0;
}

}  // namespace syncline::transport
