// The group in which servers of a job sum for its workers: `schedule = "aggregator"`.
#pragma once

#include "session/aggregated_calls.h"
#include "session/store_groups.h"

namespace syncline::session {

// For the process of this number; registers the group with the engine, after those of the store.
// The group lives until the engine stops. Without servers there is none.
collective::AggregationGroup open_aggregation(const SessionContext& context, int number,
                                              const Channels& channels, int servers);

// A worker's calls through that group, with the group of the workers alone behind them: registers
// it too. `world`: the group of all workers.
std::shared_ptr<AggregatedCalls> open_aggregated_calls(
    const std::shared_ptr<SessionContext>& context, const exec::Group& world);

}  // namespace syncline::session
