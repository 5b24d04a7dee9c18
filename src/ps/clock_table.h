// ClockTable: in which iteration each worker is, and whether a pull may be answered yet.
//
// A worker begins in clock 0 and is in clock c + 1 once it has ended clock c. A clock is closed
// when every active worker has ended it. Under bound s a worker in clock c may read once all clocks
// below c - s are closed: it sees every push of the clocks 0 .. c - s - 1 of all workers, and
// perhaps newer ones. s = 0 is bulk synchronous; kUnbounded is asynchronous. (Ho et al., "More
// effective distributed ML via a stale synchronous parallel parameter server", NIPS 2013.)
//
// States of a worker: active -> left. Who has left (finished, or died) holds nobody back and may
// not push any more. With nobody active every clock that was ever begun is closed.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"

namespace syncline::ps {

inline constexpr std::uint64_t kUnbounded = UINT64_MAX;

// Confined.
class ClockTable {
 public:
  ClockTable(int workers, std::uint64_t bound);

  // The worker has ended its clocks below `clock`. Repeats and older news change nothing. kCorrupt:
  // no such worker. kFailedPrecondition: it has left.
  Status advance(int worker, std::uint64_t clock);
  void leave(int worker);

  // How many clocks are closed: 0 .. closed() - 1.
  std::uint64_t closed() const { return closed_; }
  // A worker in `clock` may read now.
  bool admits(std::uint64_t clock) const { return clock <= bound_ || clock - bound_ <= closed_; }
  bool active(int worker) const { return states_[static_cast<std::size_t>(worker)].active; }
  std::uint64_t clock_of(int worker) const {
    return states_[static_cast<std::size_t>(worker)].clock;
  }
  // For messages: an active worker that has not ended clock closed(); -1 if nobody is active.
  int slowest() const;

 private:
  struct WorkerState {
    std::uint64_t clock = 0;
    bool active = true;
  };
  void close();

  std::uint64_t bound_;
  std::uint64_t closed_ = 0;
  std::vector<WorkerState> states_;
};

}  // namespace syncline::ps
