#include "ps/round_gate.h"

#include <algorithm>

#include "base/planted.h"

namespace syncline::ps {

Result<int> RoundGate::begin_push(int worker, std::uint64_t clock, bool continues) {
  if (clock < closed_) {
    return Status(Code::kFailedPrecondition,
                  "a push of clock " + std::to_string(clock) + ", which has ended");
  }
  Round& round = rounds_.try_emplace(clock, workers_).first->second;
  WorkerRound& mine = round.of[static_cast<std::size_t>(worker)];
  if (mine.done) {
    return Status(Code::kFailedPrecondition,
                  "a push after this worker has pulled the key in the same clock; end the clock "
                  "first, with clock()");
  }
  ++mine.under_way;
  ++round.under_way;
  if (continues && mine.pushed > 0) return mine.pushed - 1;
  return mine.pushed++;
}

void RoundGate::end_push(int worker, std::uint64_t clock) {
  const auto at = rounds_.find(clock);
  if (at == rounds_.end()) return;
  --at->second.of[static_cast<std::size_t>(worker)].under_way;
  if (--at->second.under_way == 0 && immediate_) rounds_.erase(at);
}

bool RoundGate::note_pull(int worker, std::uint64_t clock) {
  if (!rules_.is_bulk()) return false;
  const auto at = rounds_.find(clock);
  if (at == rounds_.end()) return false;
  WorkerRound& mine = at->second.of[static_cast<std::size_t>(worker)];
  if (mine.pushed > 0) mine.done = true;
  return mine.done;
}

// No round that is still open lies below `clock`, and none can begin there.
bool RoundGate::all_closed_below(std::uint64_t clock, const ClockTable& clocks) const {
  if (closed_ >= clock) return true;
  return clocks.closed() >= clock && (rounds_.empty() || rounds_.begin()->first >= clock);
}

bool RoundGate::may_read(int worker, std::uint64_t clock, bool after_push,
                         const ClockTable& clocks) const {
  const auto own = static_cast<std::size_t>(worker);
  if (immediate_) {
    const std::uint64_t early = SYNCLINE_PLANTED(bound_off_by_one) && clock > 0 ? 1 : 0;
    if (!clocks.admits(clock - early)) return false;
    return std::none_of(rounds_.begin(), rounds_.end(), [&](const auto& each) {
      const auto& [at, round] = each;
      const bool owed = at < clock && clock - at > rules_.bound;
      const bool mine = round.of[own].under_way > 0 && !SYNCLINE_PLANTED(own_push_unseen);
      return mine || (owed && round.under_way > 0);
    });
  }
  if (!rules_.is_bulk()) {
    return clocks.admits(clock) &&
           all_closed_below(clock > rules_.bound ? clock - rules_.bound : 0, clocks);
  }
  return all_closed_below(after_push ? clock + 1 : clock, clocks);
}

std::optional<std::uint64_t> RoundGate::closable(const ClockTable& clocks) const {
  if (rounds_.empty() || immediate_) return std::nullopt;
  const auto& [clock, round] = *rounds_.begin();
  if (round.under_way > 0 && !SYNCLINE_PLANTED(closes_without_payloads)) return std::nullopt;
  for (int worker = 0; worker < workers_; ++worker) {
    const bool done = !clocks.active(worker) || clocks.clock_of(worker) > clock ||
                      round.of[static_cast<std::size_t>(worker)].done;
    if (!done) return std::nullopt;
  }
  return clock;
}

void RoundGate::close(std::uint64_t clock) {
  rounds_.erase(clock);
  closed_ = std::max(closed_, clock + 1);
}

}  // namespace syncline::ps
