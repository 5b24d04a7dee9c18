// Session::Impl: owns the engine and the world.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "session/communicator_impl.h"
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
  std::vector<std::shared_ptr<session::StoreShare>> shares;  // until the engine has stopped
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;
  std::string rank_source = "single";
  std::shared_ptr<void> wiring;  // listeners and the like, released after the engine stopped
};

// Called with all channels added: registers the world group, starts the engine.
std::unique_ptr<Session::Impl> open_world(std::shared_ptr<SessionContext> context, int rank,
                                          std::vector<exec::Channel*> peers);

// init_threads() as if the ranks lay on several hosts: rank r on host host_of[r]. Schedules and
// plans take it into account, bytes go through memory all the same. For tests.
std::vector<Session> open_threads(const SessionOptions& options, std::vector<int> host_of);

// Staging for one inbound ring when `local_ranks` ranks share a host: at most 8 MiB a rank in all.
std::size_t ring_capacity(int local_ranks);
// The largest segment that such rings can carry.
std::size_t segment_bytes_max(std::size_t capacity);

}  // namespace syncline
