// Servers as threads of this process.
#pragma once

#include <memory>
#include <vector>

#include "event/thread.h"
#include "ps/links.h"
#include "session/communicator_impl.h"

namespace syncline::session {

// A server's end of all links, its engine running. Leaves the job when destroyed.
class LocalServer {
 public:
  LocalServer(std::shared_ptr<SessionContext> context, ps::ServerLinks server_links,
              collective::AggregationGroup aggregation);
  ~LocalServer();
  LocalServer(const LocalServer&) = delete;
  LocalServer& operator=(const LocalServer&) = delete;

  const ps::ServerLinks& links() const { return links_; }
  // Once: sums for the workers' all-reduces.
  void start_aggregator();

 private:
  std::shared_ptr<SessionContext> context_;
  ps::ServerLinks links_;
  collective::AggregationGroup aggregation_;
};

// Externally synchronised. Runs a thread for each server, which ends when all workers have left;
// destruction waits for that. So every session of the job holds one reference and drops it after it
// has left: the last one to be destroyed, whichever that is, waits for nobody.
class ServerThreads {
 public:
  explicit ServerThreads(std::vector<std::unique_ptr<LocalServer>> servers);

  // Throws Error when there is no room for a thread.
  void start();

 private:
  std::vector<std::unique_ptr<LocalServer>> servers_;
  std::vector<event::NamedThread> threads_;  // joined before their servers go
};

}  // namespace syncline::session
