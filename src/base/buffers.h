// Buffers: memory for payloads, used again while it is warm.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <deque>
#include <memory>
#include <new>
#include <utility>

namespace syncline {

// Shared; whoever holds one may read it, and write to it while nobody else holds it.
using Buffer = std::shared_ptr<std::byte>;

// Confined, but buffers may be let go anywhere.
class Buffers {
 public:
  // 64-byte aligned, contents undefined. Throws bad_alloc.
  Buffer take(std::size_t bytes) {
    for (std::size_t i = kept_.size(); i-- > 0;) {
      if (kept_[i].first != bytes || kept_[i].second.use_count() != 1) continue;
      Buffer found = std::move(kept_[i].second);
      kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(i));
      kept_bytes_ -= bytes;
      return found;
    }
    const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    auto* memory = static_cast<std::byte*>(
        std::aligned_alloc(kAlignment, rounded == 0 ? kAlignment : rounded));
    if (memory == nullptr) throw std::bad_alloc();
    return Buffer(memory, [](std::byte* p) { std::free(p); });
  }
  // For a later take() of the same length.
  void give(Buffer buffer, std::size_t bytes) {
    kept_.emplace_back(bytes, std::move(buffer));
    kept_bytes_ += bytes;
    while (kept_.size() > kKeptMax || kept_bytes_ > kKeptBytesMax) {
      kept_bytes_ -= kept_.front().first;
      kept_.pop_front();
    }
  }

 private:
  static constexpr std::size_t kAlignment = 64;
  static constexpr std::size_t kKeptMax = 256;
  static constexpr std::size_t kKeptBytesMax = 64 << 20;
  std::deque<std::pair<std::size_t, Buffer>> kept_;  // lengths; the oldest first
  std::size_t kept_bytes_ = 0;
};

}  // namespace syncline
