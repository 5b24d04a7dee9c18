// init(): from the environment of one process to a session.
#include "base/env.h"
#include "cluster/host_identity.h"
#include "plan/generators.h"
#include "session/joining.h"
#include "session/session_impl.h"
#include "session/settings.h"

namespace syncline {
namespace {

void attach_process_flight(session::Joining& join) {
  flight::Identity identity;
  identity.rank = join.env.rank;
  identity.world_size = join.env.world_size;
  // Other launchers' names are not unique on a host; the view's number belongs to this job alone.
  const auto run_id = env("SYNCLINE_RUN_ID");
  identity.job = run_id.has_value() ? *run_id : "job-" + std::to_string(join.view.job);
  identity.host = cluster::host_name();
  session::attach_flight(*join.context, session::FlightLog::Place::kProcess, identity);
}

Session single(session::Joining& join) {
  attach_process_flight(join);
  session::choose_transport(*join.context, "none", 1, transport::kFrameBytesMax);
  join.context->host_of = {0};
  auto impl = open_world(join.context, 0, {nullptr});
  impl->rank_source = join.env.source;
  return Session(std::move(impl));
}

}  // namespace

Session init(const SessionOptions& code_options) {
  session::Joining join = session::begin_joining(code_options);
  if (join.env.server >= 0) {
    throw Error(Status(Code::kFailedPrecondition,
                       "SYNCLINE_SERVER_ID=" + std::to_string(join.env.server) +
                           ": this process is a server of the job and no rank; let it call "
                           "syncline::serve(), or start `syncline serve` instead"));
  }
  if (join.env.processes() == 1) return single(join);

  auto& schedule = join.context->preferences.schedule;
  if (join.env.aggregates && schedule.empty()) schedule = plan::kAggregated;
  session::meet(join);
  attach_process_flight(join);
  session::choose_transports(join);
  session::Channels channels = session::connect(join);
  auto impl = open_world(join.context, join.env.rank, std::move(channels), join.env.servers);
  impl->aggregates = join.env.aggregates;
  impl->local_rank = join.locality.workers.before;
  impl->local_world_size = join.locality.workers.here;
  impl->rank_source = join.env.source;
  impl->wiring = std::move(join.wiring);
  return Session(std::move(impl));
}

}  // namespace syncline
