// Communicator::Impl: a group on an engine. Immutable after construction; thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collective/aggregator.h"
#include "collective/plan_cache.h"
#include "exec/engine.h"
#include "syncline/batch.h"
#include "syncline/communicator.h"

namespace syncline {

namespace session {
class AggregatedCalls;
class FlightLog;
}  // namespace session

// What all groups of one session share.
struct SessionContext {
  std::shared_ptr<exec::Engine> engine;
  std::shared_ptr<session::FlightLog> flight;   // may be null
  std::atomic<std::uint32_t> next_group_id{2};  // the world is 1
  // Ids below `next` are taken, by this process or by others that agreed with it.
  void take_group_ids(std::uint32_t next) {
    std::uint32_t current = next_group_id.load();
    while (current < next && !next_group_id.compare_exchange_weak(current, next)) {
    }
  }
  std::atomic<bool> splitting{false};  // one at a time: ids grow on every rank
  plan::CostParams cost;
  std::vector<int> host_of;       // by world rank: equal numbers share a host; empty: not known
  std::vector<int> server_hosts;  // by server, in the same numbers
  collective::Preferences preferences;
  bool reproducible = false;  // unless a call says otherwise
  collective::Staging staging;
  collective::AggregationGroup aggregation;                  // no group: the job has no servers
  std::weak_ptr<session::AggregatedCalls> aggregated_calls;  // the session's
  std::string transport;                                     // "shm", "tcp", "shm+tcp", ...
  Nanos timeout = 0;
};

class Communicator::Impl {
 public:
  // Registers the group with the engine.
  Impl(std::shared_ptr<SessionContext> context, std::shared_ptr<exec::Group> group);
  // The parent's group for a batch, which takes the calls.
  Impl(std::shared_ptr<Impl> parent, std::shared_ptr<Batch::Impl> batch);
  ~Impl();

  struct Call {
    Collective kind{};
    ConstTensorView in;  // count(): elements at this rank
    TensorView out;
    std::size_t count = 0;  // elements of the whole vector
    ReduceOp op = ReduceOp::kSum;
    int root = -1;
    bool unequal = false;  // the `_v` form
  };
  // Throws Error for a bad call, before any byte is sent.
  Work start(const Call& call, const CallOptions& options);
  // The `_v` form of call.kind. What each rank holds: elements by rank for a tensor of size()
  // blocks; empty where the rank has one block, which its tensor then says, or none.
  struct BlockCounts {
    std::vector<std::size_t> in, out;
  };
  Work start_unequal(Call call, const BlockCounts& counts, const CallOptions& options);

  // Throws Error for a bad call; `request` has what the caller gave.
  std::shared_ptr<WorkState> start_message(exec::MessageRequest request,
                                           const ConstTensorView& view, const CallOptions& options);

  int rank() const { return group_->rank; }
  int size() const { return static_cast<int>(group_->world_ranks.size()); }
  const std::shared_ptr<exec::Group>& group() const { return group_; }
  const std::shared_ptr<SessionContext>& context() const { return context_; }
  // What makes the plan of such a call; throws Error where it must not be made.
  collective::PlanCache& plans_for(Collective kind, const CallOptions& options);
  bool is_batched() const { return batch_ != nullptr; }

 private:
  Work start_weighted(const Call& call, const CallOptions& options);
  Work submit(const Call& call, const CallOptions& options);
  // By schedule "aggregator" (aggregated.cc).
  bool is_behind_aggregators() const;
  bool wants_aggregators(Collective kind, const CallOptions& options) const;
  const collective::AggregationGroup& aggregation_for(const Call& call,
                                                      const CallOptions& options) const;
  Work submit_aggregated(const Call& call, const CallOptions& options);
  std::vector<exec::MessageRequest> announcements(const exec::OperationRequest& request,
                                                  const Call& call) const;
  // To the engine or the batch.
  Work launch(exec::OperationRequest&& request);
  std::shared_ptr<WorkState> launch(exec::MessageRequest&& request);
  void check_values(const Call& call, const CallOptions& options) const;
  bool is_reproducible(const Call& call, const CallOptions& options) const;
  // What all kinds of requests have in common.
  void complete_request(exec::OperationRequest& request, const Call& call,
                        const CallOptions& options);

  std::shared_ptr<SessionContext> context_;
  std::shared_ptr<exec::Group> group_;
  std::shared_ptr<collective::PlanCache> plans_;  // the group keeps it for running operations
  std::shared_ptr<Impl> parent_;                  // with batch_: the one that registered the group
  std::shared_ptr<Batch::Impl> batch_;
};

// The group behind a Communicator; throws Error if there is none.
Communicator::Impl& usable(const std::shared_ptr<Communicator::Impl>& impl);
// Throws Error; how the message names the call.
[[noreturn]] void refuse(const Communicator::Impl::Call& call, const CallOptions& options,
                         const std::string& why, Code code = Code::kInvalidArgument);
// Memory that this library cannot read: throws Error.
void check_view(const ConstTensorView& view, const Communicator::Impl::Call& call,
                const CallOptions& options);
inline constexpr std::ptrdiff_t kNeverShared = PTRDIFF_MAX;
// Throws Error if the two share memory, unless `out` begins `allowed` bytes behind `in` (before it
// when negative).
void check_apart(const Communicator::Impl::Call& call, const CallOptions& options,
                 std::ptrdiff_t allowed);

}  // namespace syncline
