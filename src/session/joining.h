// Joining: what init() and serve() have in common, from the environment of one process to channels
// to all others of the job.
#pragma once

#include <memory>

#include "base/clock.h"
#include "cluster/healer.h"
#include "cluster/rank_env.h"
#include "cluster/rendezvous.h"
#include "session/locality.h"
#include "session/store_groups.h"
#include "session/transports.h"
#include "syncline/session.h"
#include "transport/shm/shm.h"

namespace syncline::session {

// Lives as long as the session.
struct Wiring {
  MonotonicClock clock;
  std::unique_ptr<cluster::Healer> healer;
};

// Externally synchronised. Members are filled in the order of the functions below.
struct Joining {
  SessionOptions options;
  cluster::RankEnv env;
  Transports transports;
  std::shared_ptr<SessionContext> context;
  cluster::LogLine log;

  cluster::JobKey key;
  std::shared_ptr<Wiring> wiring;
  std::unique_ptr<transport::shm::Listener> shm_listener;
  std::vector<transport::tcp::Fd> data_listeners;
  cluster::View view;
  Locality locality;

  const cluster::Member& self() const { return member(env.number()); }
  const cluster::Member& member(int number) const {
    return view.members[static_cast<std::size_t>(number)];
  }
  // "rank 3 (host b, pid 4711)", "server 1 (host a, pid 4712)"
  std::string label_of(const cluster::Member& member) const;
};

// Settings and the process's place in the job; throws Error.
Joining begin_joining(const SessionOptions& code_options);
// Blocks until all processes of the job are there; throws Error.
void meet(Joining& join);
// Sets the context's transport, the same way on all processes of the job.
void choose_transports(Joining& join);
// Blocks until all are connected; throws Error. The engine has the channels, and is not started.
Channels connect(Joining& join);

template <class T>
T value_or_throw(Result<T> result) {
  throw_if_error(result.status());
  return std::move(result).value();
}

}  // namespace syncline::session
