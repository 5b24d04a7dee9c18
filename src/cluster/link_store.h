// LinkStore: sequenced frames of one direction, kept until they are acknowledged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace syncline::cluster {

// Confined. A ring of whole frames (header, then payload), so neighbouring frames leave in one
// piece and nothing is allocated per frame. Frames are numbered by the link; here they are a queue
// with a cursor:
//
//   [ acknowledged | written, not acknowledged | being written | not written ]
//                  ^ front                     ^ cursor
class LinkStore {
 public:
  // At most `window` bytes of frames; `frame_bytes_max` bounds each.
  LinkStore(std::size_t window, std::size_t frame_bytes_max);

  // Room for a frame of `bytes` at the back, or nullptr if the window is full. `beyond_window`: for
  // the one small frame (goodbye) that always has room.
  std::byte* append(std::size_t bytes, bool beyond_window = false);
  // Forgets the oldest `frames` frames; they must have been written.
  void acknowledge(std::size_t frames);

  std::size_t frames() const { return count_; }
  std::size_t bytes() const { return bytes_; }
  std::size_t written_frames() const { return cursor_; }  // wholly written, not acknowledged
  bool has_unwritten() const { return cursor_ < count_; }
  // The frame under the cursor has left in part: it must go on before anything else.
  bool is_inside_frame() const { return cursor_bytes_ > 0; }

  // Unwritten bytes in order, neighbours joined, at most `bytes_max` (but at least one frame).
  // `seal(frame)` runs once for each frame before its first byte is handed out.
  template <class Seal>
  std::size_t collect(std::span<std::span<const std::byte>> pieces, std::size_t bytes_max,
                      Seal seal);
  // The first `bytes` of them have left.
  void wrote(std::size_t bytes);

 private:
  struct Record {
    std::uint32_t offset = 0;
    std::uint32_t bytes = 0;
  };
  Record& at(std::size_t index) { return records_[(first_ + index) & (records_.size() - 1)]; }
  void grow();
  bool place(std::size_t bytes, std::size_t& offset);

  const std::size_t window_;
  const std::size_t capacity_;
  std::unique_ptr<std::byte[]> memory_;  // untouched pages cost nothing
  std::vector<Record> records_;          // circular, a power of two
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  std::size_t cursor_ = 0;        // index of the frame being written
  std::size_t cursor_bytes_ = 0;  // how much of it has left
  std::size_t sealed_ = 0;        // frames before this index are sealed
  std::size_t bytes_ = 0;
  std::size_t head_ = 0;  // offset where the next frame goes
};

template <class Seal>
std::size_t LinkStore::collect(std::span<std::span<const std::byte>> pieces, std::size_t bytes_max,
                               Seal seal) {
  std::size_t used = 0;
  std::size_t total = 0;
  for (std::size_t i = cursor_; i < count_ && total < bytes_max; ++i) {
    const Record& record = at(i);
    std::byte* frame = memory_.get() + record.offset;
    const std::size_t skip = i == cursor_ ? cursor_bytes_ : 0;
    const bool joins = used > 0 && pieces[used - 1].data() + pieces[used - 1].size() == frame;
    if (!joins && used == pieces.size()) break;
    if (i >= sealed_) {
      seal(frame);
      sealed_ = i + 1;
    }
    if (joins) {
      pieces[used - 1] = {pieces[used - 1].data(), pieces[used - 1].size() + record.bytes};
    } else {
      pieces[used++] = {frame + skip, record.bytes - skip};
    }
    total += record.bytes - skip;
  }
  return used;
}

}  // namespace syncline::cluster
