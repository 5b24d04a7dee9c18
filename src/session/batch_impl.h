// Batch::Impl: calls that wait for start(). Externally synchronised.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "exec/engine.h"
#include "session/communicator_impl.h"
#include "syncline/batch.h"

namespace syncline {

class Batch::Impl {
 public:
  // Throws Error if the group is of another session than those before.
  void join(std::shared_ptr<Communicator::Impl> group);
  std::shared_ptr<WorkState> record(exec::OperationRequest&& request);
  std::shared_ptr<WorkState> record(exec::MessageRequest&& request);
  // Not for the engine: `begin` starts it, behind the batch's other calls, and completes the Work.
  using Begin = std::function<void(const std::shared_ptr<WorkState>&)>;
  std::shared_ptr<WorkState> record(Begin begin);
  // A Work that is made of recorded ones: not to be waited for before start().
  void hold(const std::shared_ptr<WorkState>& work);
  Work start();
  void cancel();

 private:
  std::shared_ptr<WorkState> record(exec::Engine::Call&& call);

  std::shared_ptr<exec::Engine> engine_;
  std::vector<std::shared_ptr<Communicator::Impl>> groups_;  // of the calls
  std::vector<exec::Engine::Call> calls_;
  std::vector<std::pair<std::shared_ptr<WorkState>, Begin>> later_;
  std::vector<std::shared_ptr<WorkState>> held_;
};

}  // namespace syncline
