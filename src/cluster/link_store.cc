#include "cluster/link_store.h"

#include <algorithm>

#include "base/assert.h"

namespace syncline::cluster {
namespace {
constexpr std::size_t kRecordsAtStart = 64;
}  // namespace

// Twice the largest frame of slack: a frame that does not fit before the end of the ring leaves a
// gap smaller than itself, and a goodbye fits behind a full window.
LinkStore::LinkStore(std::size_t window, std::size_t frame_bytes_max)
    : window_(window),
      capacity_(window + 2 * frame_bytes_max),
      memory_(new std::byte[capacity_]),
      records_(kRecordsAtStart) {
  SYNCLINE_ASSERT(frame_bytes_max <= window, "a window holds at least one frame");
}

std::byte* LinkStore::append(std::size_t bytes, bool beyond_window) {
  if (!beyond_window && bytes_ + bytes > window_) return nullptr;
  std::size_t offset = 0;
  if (!place(bytes, offset)) return nullptr;
  if (count_ == records_.size()) grow();
  at(count_++) = {static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(bytes)};
  bytes_ += bytes;
  head_ = offset + bytes;
  return memory_.get() + offset;
}

bool LinkStore::place(std::size_t bytes, std::size_t& offset) {
  if (count_ == 0) {
    offset = 0;
    return true;
  }
  const std::size_t tail = at(0).offset;
  if (head_ > tail) {
    offset = capacity_ - head_ >= bytes ? head_ : 0;
    return offset == head_ || bytes <= tail;
  }
  offset = head_;
  return tail - head_ >= bytes;
}

void LinkStore::acknowledge(std::size_t frames) {
  SYNCLINE_ASSERT(frames <= cursor_, "only written frames can be acknowledged");
  for (std::size_t i = 0; i < frames; ++i) bytes_ -= at(i).bytes;
  first_ = (first_ + frames) & (records_.size() - 1);
  count_ -= frames;
  cursor_ -= frames;
  sealed_ -= frames;
}

void LinkStore::wrote(std::size_t bytes) {
  while (bytes > 0) {
    SYNCLINE_ASSERT(cursor_ < sealed_, "only collected bytes can be written");
    const std::size_t rest = at(cursor_).bytes - cursor_bytes_;
    const std::size_t step = std::min(rest, bytes);
    bytes -= step;
    cursor_bytes_ += step;
    if (step == rest) {
      ++cursor_;
      cursor_bytes_ = 0;
    }
  }
}

void LinkStore::grow() {
  std::vector<Record> larger(records_.size() * 2);
  for (std::size_t i = 0; i < count_; ++i) larger[i] = at(i);
  records_ = std::move(larger);
  first_ = 0;
}

}  // namespace syncline::cluster
