// The group in which servers of a job sum for its workers: `schedule = "aggregator"`.
#pragma once

#include "session/communicator_impl.h"
#include "session/store_groups.h"

namespace syncline::session {

// For the process of this number; registers the group with the engine, after those of the store.
// The group lives until the engine stops. Without servers there is none.
collective::AggregationGroup open_aggregation(const SessionContext& context, int number,
                                              const Channels& channels, int servers);

}  // namespace syncline::session
