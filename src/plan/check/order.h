// Second pass of the checker: which step happens before which, and whether all of them happen.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "plan/check/program.h"

namespace syncline::plan {

// Immutable. "Before" means: by lane order, `after` and messages, on any executor.
class Order {
 public:
  // Fails where steps wait for each other in a circle, where messages of one channel (an ordered
  // pair of ranks) may overtake each other, and where a circle arises because a channel holds one
  // frame.
  static Result<Order> of(const Program& program);

  // All steps, each after those that happen before it.
  const std::vector<int>& sequence() const { return sequence_; }

  // True if step `i` is, or happens before, step `j`.
  bool before(int i, int j) const {
    return seen(j, lane_of_[static_cast<std::size_t>(i)]) > index_of_[static_cast<std::size_t>(i)];
  }
  // How many steps of a lane are or happen before step `j`.
  int seen(int j, int global_lane) const {
    return clocks_[static_cast<std::size_t>(j) * lanes_ + static_cast<std::size_t>(global_lane)];
  }

 private:
  void set_clocks(const Program& program);
  Status check_channels(const Program& program) const;

  std::size_t lanes_ = 0;
  std::vector<int> sequence_, lane_of_, index_of_;
  std::vector<std::uint16_t> clocks_;  // vector clocks: by step, by lane
};

}  // namespace syncline::plan
