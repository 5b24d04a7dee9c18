// Session::Impl: owns the engine, the world and the links to the store's servers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ps/links.h"
#include "session/aggregated_calls.h"
#include "session/communicator_impl.h"
#include "session/host_relay.h"
#include "session/local_server.h"
#include "session/store_groups.h"
#include "session/store_share.h"
#include "syncline/session.h"

namespace syncline {

class Session::Impl {
 public:
  ~Impl();

  std::shared_ptr<SessionContext> context;
  Communicator world;
  std::shared_ptr<Communicator::Impl> world_impl;
  std::uint16_t next_store = 1;
  std::vector<std::shared_ptr<session::StoreShare>> shares;    // until the engine has stopped
  std::vector<std::shared_ptr<session::HostRelay>> relays;     // as well
  ps::WorkerLinks store;                                       // no servers: the job has none
  bool aggregates = false;                                     // they hold no stores
  std::shared_ptr<session::AggregatedCalls> aggregated_calls;  // no servers: null
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;
  std::string rank_source = "single";
  std::shared_ptr<void> wiring;  // listeners and the like, released after the engine stopped
  std::shared_ptr<session::ServerThreads> company;  // as well; null: there are none
};

// How long a process that leaves waits for its last bytes to go.
inline constexpr Nanos kLinger = 2 * kSecond;

// Called with all channels added: registers the groups of world and store, starts the engine.
// `channels`: by number; the last `servers` of them lead to servers.
std::unique_ptr<Session::Impl> open_world(std::shared_ptr<SessionContext> context, int rank,
                                          session::Channels channels, int servers = 0);

// init_threads() as if the ranks lay on several hosts: rank r on host host_of[r]. Schedules and
// plans take it into account, bytes go through memory all the same. For tests.
std::vector<Session> open_threads(const SessionOptions& options, std::vector<int> host_of);

// The same with servers, server s on host server_hosts[s], whose links are the caller's to use:
// they run nothing by themselves.
struct ThreadJob {
  std::vector<Session> sessions;
  std::vector<std::unique_ptr<session::LocalServer>> servers;
};
ThreadJob open_threads(const SessionOptions& options, std::vector<int> host_of,
                       std::vector<int> server_hosts);
// With servers that run.
std::vector<Session> start_threads(const SessionOptions& options, std::vector<int> host_of,
                                   std::vector<int> server_hosts);

// Staging for one inbound ring when `local_ranks` ranks share a host: at most 8 MiB a rank in all.
std::size_t ring_capacity(int local_ranks);
// The largest segment that such rings can carry.
std::size_t segment_bytes_max(std::size_t capacity);

}  // namespace syncline
