// The groups of a key-value store: one of each worker and server, and one of each two servers.
#pragma once

#include <cstdint>
#include <vector>

#include "ps/links.h"
#include "session/communicator_impl.h"

namespace syncline::session {

// By number of the process (cluster/process_name.h); null for this one.
using Channels = std::vector<exec::Channel*>;

// Ids by formula, so that nothing is negotiated: the world is 1, then pair (worker w, server s) is
// 2 + w * S + s, then two servers a < b in lexicographic order, then workers and servers together
// (aggregation.h), then the workers once more.
struct StoreGroupIds {
  int workers = 1;
  int servers = 0;

  std::uint32_t pair(int worker, int server) const;
  std::uint32_t peers(int a, int b) const;  // a < b
  std::uint32_t aggregation() const;
  std::uint32_t workers_alone() const;  // when an aggregator is gone (aggregated_calls.h)
  std::uint32_t first_free() const;
};

// Of a store that comes later: ids that all ranks then know to be taken, the first of them.
// Collective over `world`; blocks, throws Error.
std::uint32_t reserve_group_ids(Communicator::Impl& world, std::uint32_t count);

// Two ranks, a worker and who serves it, or two servers; a rank's own pair has it alone.
std::shared_ptr<exec::Group> pair_group(const exec::Group& world, std::uint32_t id, int worker,
                                        int server);

// Both register the groups with the engine in the order of their ids. That must happen before it
// starts: a running engine takes messages of an unknown group below its newest one for late ones
// and drops them. The groups live until the engine stops.
ps::WorkerLinks open_worker_links(const SessionContext& context, int worker,
                                  const Channels& channels, int servers);
ps::ServerLinks open_server_links(const SessionContext& context, int server,
                                  const Channels& channels, int servers);

}  // namespace syncline::session
