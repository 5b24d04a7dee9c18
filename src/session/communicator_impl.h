// Communicator::Impl: a group on an engine. Immutable after construction; thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "collective/plan_cache.h"
#include "exec/engine.h"
#include "syncline/communicator.h"

namespace syncline {

// What all groups of one session share.
struct SessionContext {
  std::shared_ptr<exec::Engine> engine;
  std::atomic<std::uint32_t> next_group_id{2};  // the world is 1
  plan::CostParams cost;
  std::vector<int> host_of;  // by world rank: equal numbers share a host; empty: not known
  collective::Preferences preferences;
  bool reproducible = false;  // unless a call says otherwise
  collective::Staging staging;
  std::string transport;  // "shm", "tcp", "shm+tcp", ...
  Nanos timeout = 0;
};

class Communicator::Impl {
 public:
  // Registers the group with the engine.
  Impl(std::shared_ptr<SessionContext> context, std::shared_ptr<exec::Group> group);
  ~Impl();

  struct Call {
    Collective kind{};
    ConstTensorView in;  // count(): elements at this rank
    TensorView out;
    std::size_t count = 0;  // elements of the whole vector
    ReduceOp op = ReduceOp::kSum;
    int root = -1;
  };
  // Throws Error for a bad call, before any byte is sent.
  Work start(const Call& call, const CallOptions& options);

  int rank() const { return group_->rank; }
  int size() const { return static_cast<int>(group_->world_ranks.size()); }
  const std::shared_ptr<exec::Group>& group() const { return group_; }
  const std::shared_ptr<SessionContext>& context() const { return context_; }
  collective::PlanCache& plans() { return *plans_; }

 private:
  Work start_weighted(const Call& call, const CallOptions& options);
  std::shared_ptr<WorkState> submit(const Call& call, const CallOptions& options);

  std::shared_ptr<SessionContext> context_;
  std::shared_ptr<exec::Group> group_;
  std::shared_ptr<collective::PlanCache> plans_;  // the group keeps it for running operations
};

}  // namespace syncline
