// serve(): one server of a job as this process.
#include "ps/run_server.h"
#include "session/aggregation.h"
#include "session/joining.h"
#include "session/session_impl.h"
#include "session/stop_signal.h"
#include "syncline/server.h"

namespace syncline {
namespace {

// Leaves the job at the end of its scope.
class Membership {
 public:
  explicit Membership(exec::Engine& engine) : engine_(engine) {}
  ~Membership() { engine_.stop(kLinger); }
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

 private:
  exec::Engine& engine_;
};

}  // namespace

void serve(const SessionOptions& code_options) {
  session::Joining join = session::begin_joining(code_options);
  if (join.env.server < 0) {
    throw Error(Status(Code::kFailedPrecondition,
                       "SYNCLINE_SERVER_ID is not set: this process is " + join.env.name() +
                           " and no server; start servers with syncline run --servers N"));
  }
  session::meet(join);
  // Who stops a job may tell all its processes: workers that save meanwhile need their servers. No
  // worker has begun before this one is connected with it.
  session::watch_stop_signals();
  session::choose_transports(join);
  const session::Channels channels = session::connect(join);
  ps::ServerLinks links =
      session::open_server_links(*join.context, join.env.server, channels, join.env.servers);
  links.log = join.log;
  const auto aggregator = std::make_shared<collective::Aggregator>(
      join.context->engine,
      session::open_aggregation(*join.context, join.env.number(), channels, join.env.servers),
      join.log);
  aggregator->start();
  exec::Engine& engine = *join.context->engine;
  engine.start();
  const Membership membership(engine);
  throw_if_error(ps::run_server(std::move(links)));
}

}  // namespace syncline
