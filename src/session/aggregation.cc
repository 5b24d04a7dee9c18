#include "session/aggregation.h"

#include <algorithm>

namespace syncline::session {
namespace {

// Workers and servers may use several transports: as sends and receives of users.
constexpr std::size_t kSegmentBytesMax = 128 << 10;

}  // namespace

collective::AggregationGroup open_aggregation(const SessionContext& context, int number,
                                              const Channels& channels, int servers) {
  if (servers == 0) return {};
  const int processes = static_cast<int>(channels.size());
  collective::AggregationGroup result;
  result.workers = processes - servers;
  result.group = std::make_shared<exec::Group>();
  result.group->id = StoreGroupIds{result.workers, servers}.aggregation();
  result.group->rank = number;
  result.group->peers = channels;
  for (int r = 0; r < processes; ++r) result.group->world_ranks.push_back(r);
  collective::Staging staging = context.staging;
  staging.segment_bytes_max = std::min(staging.segment_bytes_max, kSegmentBytesMax);
  collective::Preferences preferences = context.preferences;
  preferences.schedule.clear();
  result.plans = std::make_shared<collective::PlanCache>(number, processes, context.cost,
                                                         preferences, staging, servers);
  result.group->plans = result.plans;
  context.engine->add_group(result.group);
  return result;
}

std::shared_ptr<AggregatedCalls> open_aggregated_calls(
    const std::shared_ptr<SessionContext>& context, const exec::Group& world) {
  const int workers = context->aggregation.workers;
  const int servers = context->aggregation.size() - workers;
  auto group = std::make_shared<exec::Group>();
  group->id = StoreGroupIds{workers, servers}.workers_alone();
  group->rank = world.rank;
  group->peers = world.peers;
  group->world_ranks = world.world_ranks;
  auto calls = std::make_shared<AggregatedCalls>(
      context->engine, context->aggregation,
      std::make_shared<Communicator::Impl>(context, std::move(group)));
  calls->watch();
  return calls;
}

}  // namespace syncline::session
