// LinkQueue: received frames where they lie in staging, handed out in the order of their numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/assert.h"
#include "cluster/link.h"
#include "transport/tcp/staging.h"

namespace syncline::cluster {

struct ReceivedFrame {
  Incoming kind = Incoming::kDeliver;
  std::uint32_t rail_seq = 0;
  std::size_t bytes = 0;  // header included
  int rail = 0;           // in whose staging it lies
  transport::tcp::Staging::Block* block = nullptr;
  transport::Frame frame;
};

// Confined. A circular buffer that grows to the largest backlog seen (bounded by the link's window)
// and then allocates nothing. Frames of several rails leave gaps, which later ones fill.
class LinkQueue {
 public:
  // The next frame in order has not come.
  bool empty() const { return !slots_[first_].present; }
  const ReceivedFrame& front() const { return slots_[first_].frame; }
  // Each number once; numbers begin with 1.
  void push(const ReceivedFrame& frame) {
    const std::int32_t ahead = wire::distance(next_, frame.rail_seq);
    SYNCLINE_ASSERT(ahead >= 0, "a frame is queued once");
    while (static_cast<std::size_t>(ahead) >= slots_.size()) grow();
    slots_[(first_ + static_cast<std::size_t>(ahead)) & (slots_.size() - 1)] = {frame, true};
  }
  void pop() {
    slots_[first_].present = false;
    first_ = (first_ + 1) & (slots_.size() - 1);
    ++next_;
  }

 private:
  struct Slot {
    ReceivedFrame frame;
    bool present = false;
  };
  void grow() {
    std::vector<Slot> larger(slots_.size() * 2);
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      larger[i] = slots_[(first_ + i) & (slots_.size() - 1)];
    }
    slots_.swap(larger);
    first_ = 0;
  }

  std::vector<Slot> slots_ = std::vector<Slot>(16);  // a power of two
  std::size_t first_ = 0;
  std::uint32_t next_ = 1;  // the number of the first slot
};

}  // namespace syncline::cluster
