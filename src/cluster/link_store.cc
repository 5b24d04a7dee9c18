#include "cluster/link_store.h"

#include <algorithm>

#include "base/assert.h"
#include "base/planted.h"

namespace syncline::cluster {
namespace {
constexpr std::size_t kRecordsAtStart = 64;
constexpr std::size_t kBatchHistoryMax = 256;  // written ids that wait to be cut off
}  // namespace

// Twice the largest frame of slack: a frame that does not fit before the end of the ring leaves a
// gap smaller than itself, and a goodbye fits behind a full window.
LinkStore::LinkStore(std::size_t window, std::size_t frame_bytes_max, int rails)
    : window_(window),
      capacity_(window + 2 * frame_bytes_max),
      memory_(new std::byte[capacity_]),
      records_(kRecordsAtStart),
      batches_(static_cast<std::size_t>(rails)) {
  SYNCLINE_ASSERT(frame_bytes_max <= window, "a window holds at least one frame");
  SYNCLINE_ASSERT(rails >= 1 && rails <= kRailsMax, "a link has 1 to kRailsMax rails");
}

std::byte* LinkStore::append(std::size_t bytes, bool beyond_window) {
  if (!SYNCLINE_PLANTED(window_ignored) && !beyond_window &&
      (bytes_ + bytes > window_ || count_ >= kFramesMax))
    return nullptr;
  std::size_t offset = 0;
  if (!place(bytes, offset)) return nullptr;
  if (count_ == records_.size()) grow();
  const std::uint64_t id = first_id_ + count_++;
  record(id) = {static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(bytes)};
  bytes_ += bytes;
  head_ = offset + bytes;
  return memory_.get() + offset;
}

bool LinkStore::place(std::size_t bytes, std::size_t& offset) {
  if (count_ == 0) {
    offset = 0;
    return true;
  }
  const std::size_t tail = record(first_id_).offset;
  if (head_ > tail) {
    offset = capacity_ - head_ >= bytes ? head_ : 0;
    return offset == head_ || bytes <= tail;
  }
  offset = head_;
  return tail - head_ >= bytes;
}

std::size_t LinkStore::sent_frames() const {
  const std::uint64_t oldest = first_id_ + acknowledged_;
  return sent_end_ > oldest ? static_cast<std::size_t>(sent_end_ - oldest) : 0;
}

void LinkStore::acknowledge(std::size_t frames) {
  SYNCLINE_ASSERT(frames <= sent_frames(), "only sent frames can be acknowledged");
  for (std::size_t i = 0; i < frames; ++i) settle(first_id_ + acknowledged_ + i);
  acknowledged_ += frames;
  free_from_ = std::max(free_from_, first_id_ + acknowledged_);
  release();
}

void LinkStore::mark_arrived(std::size_t index) {
  SYNCLINE_ASSERT(index < sent_frames(), "only sent frames arrive");
  settle(first_id_ + acknowledged_ + index);
}

void LinkStore::settle(std::uint64_t id) {
  Record& each = record(id);
  each.arrived = true;
  if (each.rail != kFree && !each.written) {
    batches_[static_cast<std::size_t>(each.rail)].has_settled = true;
  }
}

void LinkStore::send_again(std::size_t index) {
  if (index >= sent_frames()) return;
  const std::uint64_t id = first_id_ + acknowledged_ + index;
  Record& each = record(id);
  if (each.arrived || each.rail == kFree || !each.written) return;
  batches_[static_cast<std::size_t>(each.rail)].carried -= each.bytes;
  each.rail = kFree;
  each.repeated = true;
  free_from_ = std::min(free_from_, id);
}

void LinkStore::drop_rail(int rail) {
  for (std::uint64_t id = first_id_; id < first_id_ + count_; ++id) {
    Record& each = record(id);
    if (each.rail != rail) continue;
    each.rail = kFree;
    each.repeated = id < sent_end_;
    if (!each.arrived) free_from_ = std::min(free_from_, id);
  }
  Batch& batch = batches_[static_cast<std::size_t>(rail)];
  batch.ids.clear();
  batch.at = batch.sealed = batch.bytes = batch.bytes_done = batch.carried = 0;
  batch.has_settled = false;
  release();
}

// The oldest frames, except what a rail is in the middle of.
void LinkStore::release() {
  while (acknowledged_ > 0) {
    const Record& oldest = record(first_id_);
    if (oldest.rail != kFree) {
      Batch& batch = batches_[static_cast<std::size_t>(oldest.rail)];
      const bool begun =
          !oldest.written && batch.bytes_done > 0 && batch.ids[batch.at] == first_id_;
      if (begun) return;
      batch.carried -= oldest.bytes;
    }
    bytes_ -= oldest.bytes;
    ++first_id_;
    --count_;
    --acknowledged_;
  }
}

void LinkStore::fill(Batch& batch, int rail, std::size_t bytes_max) {
  if (batch.at == batch.ids.size() || batch.at >= kBatchHistoryMax) {
    batch.ids.erase(batch.ids.begin(), batch.ids.begin() + static_cast<std::ptrdiff_t>(batch.at));
    batch.sealed -= batch.at;
    batch.at = 0;
  }
  while (batch.bytes < bytes_max && batch.carried < share_ && free_from_ < first_id_ + count_) {
    const std::uint64_t id = free_from_++;
    Record& each = record(id);
    if (each.rail != kFree || each.arrived) continue;
    each.rail = static_cast<std::int8_t>(rail);
    each.written = false;
    batch.ids.push_back(id);
    batch.bytes += each.bytes;
    batch.carried += each.bytes;
    if (each.repeated) bytes_repeated_ += each.bytes;
    sent_end_ = std::max(sent_end_, id + 1);
  }
}

// Takes out what arrived by another rail meanwhile; a frame that has begun must end.
void LinkStore::drop_settled(Batch& batch) {
  batch.has_settled = false;
  std::size_t kept = batch.at;
  std::size_t sealed = batch.at;
  for (std::size_t i = batch.at; i < batch.ids.size(); ++i) {
    const std::uint64_t id = batch.ids[i];
    const bool begun = i == batch.at && batch.bytes_done > 0;
    // What was released is no longer there to ask.
    const bool settled = id < first_id_ || record(id).arrived;
    if (settled && !begun) {
      if (id >= first_id_) record(id).written = true;
      continue;
    }
    batch.ids[kept++] = id;
    if (i < batch.sealed) sealed = kept;
  }
  batch.ids.resize(kept);
  batch.sealed = sealed;
  batch.bytes = 0;
  for (std::size_t i = batch.at; i < kept; ++i) batch.bytes += record(batch.ids[i]).bytes;
  batch.bytes -= std::min(batch.bytes, batch.bytes_done);
}

void LinkStore::wrote(std::size_t bytes, int rail) {
  Batch& batch = batches_[static_cast<std::size_t>(rail)];
  bool may_release = false;
  while (bytes > 0) {
    SYNCLINE_ASSERT(batch.at < batch.sealed, "only collected bytes can be written");
    Record& each = record(batch.ids[batch.at]);
    const std::size_t rest = each.bytes - batch.bytes_done;
    const std::size_t step = std::min(rest, bytes);
    bytes -= step;
    batch.bytes -= step;
    batch.bytes_done += step;
    if (step < rest) break;
    each.written = true;
    may_release |= each.arrived;
    ++batch.at;
    batch.bytes_done = 0;
  }
  if (may_release) release();
}

void LinkStore::grow() {
  std::vector<Record> larger(records_.size() * 2);
  for (std::uint64_t id = first_id_; id < first_id_ + count_; ++id) {
    larger[id & (larger.size() - 1)] = record(id);
  }
  records_ = std::move(larger);
}

}  // namespace syncline::cluster
