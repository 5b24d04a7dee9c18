// HostRelay: the workers of a host whose store is on servers elsewhere. The first of them runs a
// relay (ps/relay_slice.h), on a thread of its own: what they push to tensors crosses the network
// once.
#pragma once

#include <memory>
#include <vector>

#include "event/thread.h"
#include "ps/client.h"
#include "session/communicator_impl.h"

namespace syncline::session {

// Of ranks on hosts: those of `rank`'s, in order.
std::vector<int> ranks_of_host(const std::vector<int>& host_of, int rank);
// Sums host by host, then of the hosts, are the canonical sums of all (plan/canonical.h).
bool sums_canonically(const std::vector<int>& host_of);

// Thread-safe. The thread ends when all workers of the host have left the store, or with the
// engine. The session keeps it until its engine has stopped.
class HostRelay {
 public:
  // Collective: all ranks of `world` call it in the same order. `servers`: this process's client of
  // the store that hosts are the workers of; whose relay runs elsewhere leaves it. Blocks; throws
  // Error.
  static std::shared_ptr<HostRelay> open(Communicator::Impl& world,
                                         std::shared_ptr<ps::Client> servers);
  ~HostRelay();
  HostRelay(const HostRelay&) = delete;
  HostRelay& operator=(const HostRelay&) = delete;

  // A worker that is alone on its host needs no relay: false.
  bool is_needed() const { return ranks_.size() > 1; }
  // This process is its host's relay, or needs none.
  bool leads() const { return ranks_.front() == rank_; }
  // To the relay.
  const ps::WorkerLinks& worker_links() const { return worker_; }
  // Blocks until the thread has ended, at most so long.
  void wait_for_others(Nanos limit);

 private:
  HostRelay(std::shared_ptr<SessionContext> context, std::vector<int> ranks, int rank)
      : context_(std::move(context)), ranks_(std::move(ranks)), rank_(rank) {}
  void connect(const exec::Group& world, std::uint32_t first_id);
  void start(std::shared_ptr<ps::Client> servers);

  std::shared_ptr<SessionContext> context_;
  const std::vector<int> ranks_;  // of the host
  const int rank_;
  std::vector<std::shared_ptr<exec::Group>> groups_;
  ps::WorkerLinks worker_;
  ps::ServerLinks server_;
  std::shared_ptr<WorkState> ended_;  // null: no thread
  event::NamedThread thread_;
};

}  // namespace syncline::session
