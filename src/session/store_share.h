// StoreShare: a job without server processes keeps its stores in the workers: each runs a server
// for its share, on a thread of its own.
#pragma once

#include <memory>
#include <vector>

#include "event/thread.h"
#include "ps/links.h"
#include "session/communicator_impl.h"

namespace syncline::session {

// Thread-safe. The thread ends when all workers have left the store, or with the engine. The
// session keeps shares until its engine has stopped: others may need them longer than this worker.
class StoreShare {
 public:
  // Collective: all ranks of `world` call it in the same order. Blocks; throws Error.
  static std::shared_ptr<StoreShare> open(Communicator::Impl& world);
  ~StoreShare();
  StoreShare(const StoreShare&) = delete;
  StoreShare& operator=(const StoreShare&) = delete;

  const ps::WorkerLinks& worker_links() const { return worker_; }
  // Blocks until the thread has ended, at most so long.
  void wait_for_others(Nanos limit);

 private:
  explicit StoreShare(std::shared_ptr<SessionContext> context);
  void connect(const exec::Group& world, std::uint32_t first_id);
  void start();

  std::shared_ptr<SessionContext> context_;
  std::vector<std::shared_ptr<exec::Group>> groups_;
  ps::WorkerLinks worker_;
  ps::ServerLinks server_;
  std::shared_ptr<WorkState> ended_;
  event::NamedThread thread_;
};

}  // namespace syncline::session
