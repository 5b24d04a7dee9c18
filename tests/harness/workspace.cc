#include "tests/harness/workspace.h"

#include <algorithm>
#include <cstring>

namespace syncline::harness {
namespace {

constexpr std::size_t kFence = 64;  // bytes
constexpr std::byte kFenceByte{0xdb};

std::size_t round_up(std::size_t bytes) { return (bytes + kFence - 1) / kFence * kFence; }

}  // namespace

const Bytes& Guarded::garbage_period() {
  static const Bytes period(8 * kPeriod, std::byte{0xa7});
  return period;
}

void Guarded::reset(DType type, std::size_t count, std::size_t skew) {
  type_ = type;
  count_ = count;
  const std::size_t bytes = count * size_of(type);
  const std::size_t room = bytes + 4 * kFence + skew * size_of(type);
  if (memory_.size() < room) memory_.resize(room + room / 2);
  const auto base = round_up(reinterpret_cast<std::uintptr_t>(memory_.data()));
  data_ = reinterpret_cast<std::byte*>(base) + kFence + skew * size_of(type);
  std::fill_n(data_ - kFence, kFence, kFenceByte);
  std::fill_n(data_ + bytes, kFence, kFenceByte);
  if (bytes != 0) std::memset(data_, 0xa7, bytes);
}

void Guarded::reset(const Bytes& period, DType type, std::size_t begin, std::size_t count,
                    std::size_t skew) {
  reset(type, count, skew);
  repeat(period, type, begin, count, data_);
}

bool Guarded::fences_intact() const {
  const auto whole = [](const std::byte* fence) {
    return std::all_of(fence, fence + kFence, [](std::byte b) { return b == kFenceByte; });
  };
  return whole(data_ - kFence) && whole(data_ + count_ * size_of(type_));
}

std::size_t Guarded::first_difference(const Bytes& period, std::size_t phase, std::size_t begin,
                                      std::size_t count) const {
  const std::size_t width = size_of(type_);
  const std::size_t length = period.size() / width;
  std::size_t done = 0;
  while (done < count) {
    const std::size_t at = (phase + done) % length;
    const std::size_t some = std::min(count - done, length - at);
    const std::byte* mine = data_ + (begin + done) * width;
    if (std::memcmp(mine, period.data() + at * width, some * width) != 0) {
      while (std::memcmp(mine, period.data() + (phase + done) % length * width, width) == 0) {
        ++done;
        mine += width;
      }
      return done;
    }
    done += some;
  }
  return count;
}

}  // namespace syncline::harness
