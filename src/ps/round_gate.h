// RoundGate: of one slice or table, which contributions belong to which clock, when a clock's round
// may close, and when a pull may be answered. Pure bookkeeping; the bytes are elsewhere.
//
// A push of clock c belongs to round c of its slice. By clocks and by pulls a worker says that it
// contributes no more: a worker is done with round c once it has ended clock c, or, in bulk
// synchronous stores, once it has pulled the slice in clock c after pushing it. A round closes when
// every active worker is done with it and nothing of it is under way; rounds close in order.
//
// Immediate slices (asynchronous ones, and those with an optimiser and a bound above 0) close no
// rounds: each push is applied when it is there.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "ps/clock_table.h"
#include "ps/rules.h"

namespace syncline::ps {

// Confined.
class RoundGate {
 public:
  // `immediate`: pushes are applied one by one, as they come.
  RoundGate(int workers, const Rules& rules, bool immediate)
      : workers_(workers), rules_(rules), immediate_(immediate) {}

  bool immediate() const { return immediate_; }

  // A push begins to arrive: its place among the worker's pushes of this clock, from 0.
  // kFailedPrecondition: the worker has said that it contributes no more.
  // `continues`: it is of the same push as the one before, and shares its place.
  Result<int> begin_push(int worker, std::uint64_t clock, bool continues = false);
  // It is there, and where immediate: applied. Also when it never will be.
  void end_push(int worker, std::uint64_t clock);
  // The worker asks for the slice: it is done with this round if it has pushed to it, and true.
  bool note_pull(int worker, std::uint64_t clock);

  // The worker's pull of this clock sees all that it must; `after_push`: what note_pull() said.
  // What the worker pushes later, in the same clock, is no concern of the pull.
  bool may_read(int worker, std::uint64_t clock, bool after_push, const ClockTable& clocks) const;
  // The oldest round, if it may close.
  std::optional<std::uint64_t> closable(const ClockTable& clocks) const;
  // Of a clock that may close: what is below it has, also where the news that it ended are behind.
  void close_below(std::uint64_t clock) { closed_ = closed_ > clock ? closed_ : clock; }
  void close(std::uint64_t clock);
  // The oldest round from `clock` on that has contributions and is not closed.
  std::optional<std::uint64_t> open_from(std::uint64_t clock) const {
    const auto at = rounds_.lower_bound(clock);
    return at == rounds_.end() ? std::nullopt : std::optional(at->first);
  }
  // Nothing of this clock is here or will come.
  bool has_passed(std::uint64_t clock, const ClockTable& clocks) const {
    return all_closed_below(clock + 1, clocks);
  }

 private:
  struct WorkerRound {
    int pushed = 0;
    int under_way = 0;
    bool done = false;  // by a pull
  };
  struct Round {
    explicit Round(int workers) : of(static_cast<std::size_t>(workers)) {}
    std::vector<WorkerRound> of;
    int under_way = 0;
  };
  bool all_closed_below(std::uint64_t clock, const ClockTable& clocks) const;

  int workers_;
  Rules rules_;
  bool immediate_;
  std::map<std::uint64_t, Round> rounds_;
  std::uint64_t closed_ = 0;  // rounds below it are closed for certain
};

}  // namespace syncline::ps
