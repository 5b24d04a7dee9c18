#include "ps/clock_table.h"

#include <algorithm>
#include <string>

#include "base/assert.h"

namespace syncline::ps {

ClockTable::ClockTable(int workers, std::uint64_t bound)
    : bound_(bound), states_(static_cast<std::size_t>(workers)) {
  SYNCLINE_ASSERT(workers > 0, "a store has workers");
}

Status ClockTable::advance(int worker, std::uint64_t clock) {
  if (worker < 0 || worker >= static_cast<int>(states_.size())) {
    return Status(Code::kCorrupt, "there is no worker " + std::to_string(worker) + " of " +
                                      std::to_string(states_.size()));
  }
  WorkerState& state = states_[static_cast<std::size_t>(worker)];
  if (!state.active) {
    return Status(Code::kFailedPrecondition,
                  "worker " + std::to_string(worker) + " has left the store in clock " +
                      std::to_string(state.clock) + "; it can end no clock any more")
        .with_peer(worker);
  }
  if (clock > state.clock) {
    state.clock = clock;
    close();
  }
  return {};
}

void ClockTable::leave(int worker) {
  states_[static_cast<std::size_t>(worker)].active = false;
  close();
}

// Never goes back: whoever leaves only lets others on.
void ClockTable::close() {
  std::uint64_t least = UINT64_MAX;
  std::uint64_t most = 0;
  for (const WorkerState& state : states_) {
    if (state.active) least = std::min(least, state.clock);
    most = std::max(most, state.clock);
  }
  if (least == UINT64_MAX) least = most + 1;
  closed_ = std::max(closed_, least);
}

int ClockTable::slowest() const {
  int found = -1;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (!states_[i].active) continue;
    if (found < 0 || states_[i].clock < states_[static_cast<std::size_t>(found)].clock) {
      found = static_cast<int>(i);
    }
  }
  return found;
}

}  // namespace syncline::ps
