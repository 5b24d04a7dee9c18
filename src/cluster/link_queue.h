// LinkQueue: received frames in order, where they lie in staging.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cluster/link.h"
#include "transport/tcp/staging.h"

namespace syncline::cluster {

struct ReceivedFrame {
  Incoming kind = Incoming::kDeliver;
  std::uint32_t rail_seq = 0;
  std::size_t bytes = 0;  // header included
  transport::tcp::Staging::Block* block = nullptr;
  transport::Frame frame;
};

// Confined. A circular buffer that grows to the largest backlog seen (bounded by the link's window)
// and then allocates nothing.
class LinkQueue {
 public:
  bool empty() const { return count_ == 0; }
  const ReceivedFrame& front() const { return slots_[first_]; }
  void push(const ReceivedFrame& frame) {
    if (count_ == slots_.size()) grow();
    slots_[(first_ + count_++) & (slots_.size() - 1)] = frame;
  }
  void pop() {
    first_ = (first_ + 1) & (slots_.size() - 1);
    --count_;
  }

 private:
  void grow() {
    std::vector<ReceivedFrame> larger(slots_.size() * 2);
    for (std::size_t i = 0; i < count_; ++i) larger[i] = slots_[(first_ + i) & (slots_.size() - 1)];
    slots_.swap(larger);
    first_ = 0;
  }

  std::vector<ReceivedFrame> slots_ = std::vector<ReceivedFrame>(16);  // a power of two
  std::size_t first_ = 0;
  std::size_t count_ = 0;
};

}  // namespace syncline::cluster
