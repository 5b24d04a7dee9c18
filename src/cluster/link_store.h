// LinkStore: sequenced frames of one direction, kept until they are acknowledged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace syncline::cluster {

// Confined. A ring of whole frames (header, then payload), so neighbouring frames leave in one
// piece and nothing is allocated per frame. Frames are numbered by the link; here they are a queue,
// and `index` counts from the oldest one that is not acknowledged.
//
// A frame is free, or carried by one rail: in that rail's batch until the last byte has left, then
// on its way. drop_rail() and send_again() free it once more. One that is known to have arrived is
// never written again, but stays (and fills the window) until it is acknowledged.
class LinkStore {
 public:
  static constexpr int kRailsMax = 8;
  static constexpr std::size_t kFramesMax = 8192;

  // At most `window` bytes of frames; `frame_bytes_max` bounds each.
  LinkStore(std::size_t window, std::size_t frame_bytes_max, int rails = 1);

  // Room for a frame of `bytes` at the back, or nullptr if the window is full. `beyond_window`: for
  // the one small frame (goodbye) that always has room.
  std::byte* append(std::size_t bytes, bool beyond_window = false);
  // Forgets the oldest `frames` frames; at most sent_frames(). The memory of one that a rail has
  // written in part is kept until the rail is through with it or dropped.
  void acknowledge(std::size_t frames);
  void mark_arrived(std::size_t index);
  // Frees the frame if it was wholly written and has not arrived.
  void send_again(std::size_t index);
  // The rail has ended: frees what it carried.
  void drop_rail(int rail);

  std::size_t frames() const { return count_ - acknowledged_; }
  std::size_t bytes() const { return bytes_; }
  // From the oldest to the last one of which bytes were handed out.
  std::size_t sent_frames() const;
  bool has_unwritten(int rail = 0) const {
    const Batch& batch = batches_[static_cast<std::size_t>(rail)];
    return batch.at < batch.ids.size() ||
           (free_from_ < first_id_ + count_ && batch.carried < share_);
  }
  // The first frame of the batch has left in part: it must go on before anything else.
  bool is_inside_frame(int rail = 0) const {
    return batches_[static_cast<std::size_t>(rail)].bytes_done > 0;
  }
  std::uint64_t bytes_repeated() const { return bytes_repeated_; }

  // How much a rail may carry; the others take the rest. Without a limit the first rail's kernel
  // buffer would swallow everything.
  void set_share(std::size_t bytes) { share_ = bytes; }

  // Unwritten bytes in order, neighbours joined, at most `bytes_max` (but at least one frame).
  // `seal(frame)` runs once for each frame before its first byte is handed out to a rail.
  template <class Seal>
  std::size_t collect(std::span<std::span<const std::byte>> pieces, std::size_t bytes_max,
                      Seal seal, int rail = 0);
  // The first `bytes` of them have left.
  void wrote(std::size_t bytes, int rail = 0);

 private:
  struct Record {
    std::uint32_t offset = 0;
    std::uint32_t bytes = 0;
    std::int8_t rail = kFree;  // who carries it
    bool written = false;      // wholly, by that rail
    bool arrived = false;
    bool repeated = false;  // was carried before
  };
  static constexpr std::int8_t kFree = -1;
  // What a rail writes next. Ids count all frames ever appended.
  struct Batch {
    std::vector<std::uint64_t> ids;
    std::size_t at = 0;          // before it: written
    std::size_t sealed = 0;      // before it: sealed
    std::size_t bytes = 0;       // of the frames from `at` on
    std::size_t bytes_done = 0;  // of the frame `at`
    std::size_t carried = 0;     // bytes of all frames that this rail carries, in memory
    bool has_settled = false;    // some of its frames need not be written any more
  };

  Record& record(std::uint64_t id) { return records_[id & (records_.size() - 1)]; }
  void grow();
  bool place(std::size_t bytes, std::size_t& offset);
  void release();
  void settle(std::uint64_t id);
  void fill(Batch& batch, int rail, std::size_t bytes_max);
  void drop_settled(Batch& batch);

  const std::size_t window_;
  const std::size_t capacity_;
  std::unique_ptr<std::byte[]> memory_;  // untouched pages cost nothing
  std::vector<Record> records_;          // circular by id, a power of two
  std::vector<Batch> batches_;           // by rail
  std::uint64_t first_id_ = 0;           // the oldest frame in memory
  std::size_t count_ = 0;
  std::size_t acknowledged_ = 0;  // of them, still in memory
  std::uint64_t free_from_ = 0;   // no frame before it is free
  std::uint64_t sent_end_ = 0;    // after the last one that was handed out
  std::size_t bytes_ = 0;
  std::size_t share_ = SIZE_MAX;
  std::size_t head_ = 0;  // offset where the next frame goes
  std::uint64_t bytes_repeated_ = 0;
};

template <class Seal>
std::size_t LinkStore::collect(std::span<std::span<const std::byte>> pieces, std::size_t bytes_max,
                               Seal seal, int rail) {
  Batch& batch = batches_[static_cast<std::size_t>(rail)];
  if (batch.has_settled) drop_settled(batch);
  fill(batch, rail, bytes_max);
  std::size_t used = 0;
  std::size_t total = 0;
  for (std::size_t i = batch.at; i < batch.ids.size() && total < bytes_max; ++i) {
    const Record& each = record(batch.ids[i]);
    std::byte* frame = memory_.get() + each.offset;
    const std::size_t skip = i == batch.at ? batch.bytes_done : 0;
    const bool joins = used > 0 && pieces[used - 1].data() + pieces[used - 1].size() == frame;
    if (!joins && used == pieces.size()) break;
    if (i >= batch.sealed) {
      seal(frame);
      batch.sealed = i + 1;
    }
    if (joins) {
      pieces[used - 1] = {pieces[used - 1].data(), pieces[used - 1].size() + each.bytes};
    } else {
      pieces[used++] = {frame + skip, each.bytes - skip};
    }
    total += each.bytes - skip;
  }
  return used;
}

}  // namespace syncline::cluster
