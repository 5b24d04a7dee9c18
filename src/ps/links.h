// Links: how a process of a key-value store reaches the others. One group of two for each worker
// and server, and for each two servers, so that a process that dies ends only its own pairs.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "exec/channel.h"
#include "exec/engine.h"
#include "ps/lead.h"

namespace syncline::ps {

// Group rank 0 of a worker's pair is the worker, 1 the server; of two servers the lower is 0. A
// worker that serves itself is a group of one.
inline constexpr int kWorkerSide = 0;
inline constexpr int kServerSide = 1;

struct WorkerLinks {
  std::shared_ptr<exec::Engine> engine;
  int worker = 0;
  int workers = 1;
  std::vector<std::shared_ptr<exec::Group>> servers;  // by server
  std::size_t segment_bytes = 0;                      // of one frame at most
  Nanos timeout = 0;                                  // of one message
  std::size_t window_bytes = 2 << 20;                 // of payloads on the way to all servers
  std::size_t lead_bytes = Lead::kBytes;              // over answers, of all servers

  // Servers' links are the bottleneck: fewer than workers, and some on other hosts.
  bool servers_are_narrow() const {
    if (static_cast<std::size_t>(workers) <= servers.size()) return false;
    return std::any_of(servers.begin(), servers.end(), [](const auto& pair) {
      const exec::Channel* server = pair->peers.back();
      return server != nullptr && server->endpoint->is_far();
    });
  }
};

struct ServerLinks {
  std::shared_ptr<exec::Engine> engine;
  int server = 0;
  std::vector<std::shared_ptr<exec::Group>> workers;  // by worker
  std::vector<std::shared_ptr<exec::Group>> peers;    // by server; null for this one
  std::size_t segment_bytes = 0;
  bool ends_with_stores = false;  // when all workers have left all stores, not the job
  std::function<void(const std::string&)> log;
};

}  // namespace syncline::ps
