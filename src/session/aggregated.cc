// Communicator: all_reduce through the job's servers, schedule "aggregator".
#include "collective/request.h"
#include "plan/generators.h"
#include "session/aggregated_calls.h"
#include "session/batch_impl.h"
#include "session/communicator_impl.h"
#include "session/store_groups.h"

namespace syncline {
namespace {

// The aggregators' group has one order of calls: calls of other communicators that come between
// must not be taken for each other.
std::string name_of_call(const exec::Group& group, const std::string& name) {
  return group.id == 1 ? name : name + " (communicator " + std::to_string(group.id) + ")";
}

bool has_all_workers(const exec::Group& group, int workers) {
  if (group.world_ranks.size() != static_cast<std::size_t>(workers)) return false;
  for (int r = 0; r < workers; ++r) {
    if (group.world_ranks[static_cast<std::size_t>(r)] != r) return false;
  }
  return true;
}

}  // namespace

// The group that aggregators' calls fall back to.
bool Communicator::Impl::is_behind_aggregators() const {
  const collective::AggregationGroup& aggregation = context_->aggregation;
  const session::StoreGroupIds ids{aggregation.workers, aggregation.size() - aggregation.workers};
  return group_->id == ids.workers_alone();
}

// A session-wide choice yields where it cannot run.
bool Communicator::Impl::wants_aggregators(Collective kind, const CallOptions& options) const {
  if (!options.schedule.empty()) return options.schedule == plan::kAggregated;
  return context_->preferences.schedule == plan::kAggregated && kind == Collective::kAllReduce &&
         context_->aggregation.group != nullptr && !is_behind_aggregators() &&
         has_all_workers(*group_, context_->aggregation.workers);
}

collective::PlanCache& Communicator::Impl::plans_for(Collective kind, const CallOptions& options) {
  if (!wants_aggregators(kind, options)) return *plans_;
  Call call;
  call.kind = kind;
  return *aggregation_for(call, options).plans;
}

const collective::AggregationGroup& Communicator::Impl::aggregation_for(
    const Call& call, const CallOptions& options) const {
  const collective::AggregationGroup& aggregation = context_->aggregation;
  if (aggregation.group == nullptr) {
    refuse(call, options,
           "schedule 'aggregator' needs aggregators; start some with syncline run --aggregators N",
           Code::kUnsupported);
  }
  if (!has_all_workers(*group_, aggregation.workers)) {
    refuse(call, options, "schedule 'aggregator' needs a communicator of all ranks in order",
           Code::kUnsupported);
  }
  return aggregation;
}

Work Communicator::Impl::submit_aggregated(const Call& call, const CallOptions& options) {
  const collective::AggregationGroup& aggregation = aggregation_for(call, options);
  const auto planned = aggregation.plans->find(
      {call.kind, call.in.type(), call.count, 0, {}, is_reproducible(call, options)});
  if (!planned.ok()) refuse(call, options, planned.status().message(), planned.status().code());
  exec::OperationRequest request =
      collective::make_request(*planned.value(), call.kind, call.in.type(), call.count);
  complete_request(request, call, options);
  request.group = aggregation.group.get();
  request.name = name_of_call(*group_, options.name);
  if (request.name.size() > collective::kAnnounceNameMax) {
    refuse(call, options,
           "the name is longer than " + std::to_string(collective::kAnnounceNameMax) + " bytes");
  }
  auto messages = announcements(request, call);
  const auto calls = context_->aggregated_calls.lock();
  if (calls == nullptr) refuse(call, options, "the session has left the job", Code::kShutdown);
  if (batch_ != nullptr) {
    const auto kept = std::make_shared<exec::OperationRequest>(std::move(request));
    return Work(batch_->record([calls, messages, kept, call, options](const auto& work) {
      calls->start(messages, std::move(*kept), call, options, work);
    }));
  }
  auto work = std::make_shared<WorkState>(context_->engine);
  calls->start(std::move(messages), std::move(request), call, options, work);
  return Work(work);
}

// What rank 0 sends to each aggregator before it calls.
std::vector<exec::MessageRequest> Communicator::Impl::announcements(
    const exec::OperationRequest& request, const Call& call) const {
  std::vector<exec::MessageRequest> messages;
  if (rank() != 0) return messages;
  const auto bytes = std::make_shared<std::vector<std::byte>>(
      collective::encode({call.in.type(), request.op, request.reproducible, request.divisor,
                          call.count, request.name}));
  const collective::AggregationGroup& aggregation = context_->aggregation;
  for (int peer = aggregation.workers; peer < aggregation.size(); ++peer) {
    exec::MessageRequest message;
    message.group = aggregation.group.get();
    message.sends = true;
    message.peer = peer;
    message.tag = collective::kAnnounceTag;
    message.data = bytes->data();
    message.count = bytes->size();
    message.type = DType::kU8;
    message.segment_bytes = context_->staging.segment_bytes_max;
    message.timeout = request.timeout;
    message.keep = bytes;
    messages.push_back(std::move(message));
  }
  return messages;
}

}  // namespace syncline
