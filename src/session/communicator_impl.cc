#include "session/communicator_impl.h"

#include <cstdint>

#include "collective/request.h"
#include "kernels/reduce.h"
#include "plan/generators.h"
#include "plan/partition.h"
#include "session/batch_impl.h"

namespace syncline {
namespace {

std::string counts_text(std::size_t in, std::size_t out) {
  return std::to_string(in) + " in, " + std::to_string(out) + " out";
}

// Who has a tensor of size() blocks, where the other one has a single block.
bool is_whole_in(Collective kind) {
  return kind == Collective::kReduceScatter || kind == Collective::kScatter;
}
bool is_whole_out(Collective kind) {
  return kind == Collective::kAllGather || kind == Collective::kGather;
}

void check_shapes(const Communicator::Impl::Call& call, const CallOptions& options, int size) {
  const std::size_t in = call.in.count();
  const std::size_t out = call.out.count();
  const bool is_whole = is_whole_in(call.kind) || is_whole_out(call.kind);
  const bool is_alike = call.in.type() == call.out.type() && in == out;
  if (is_alike && !is_whole && call.kind != Collective::kAllToAll) return;
  const auto n = static_cast<std::size_t>(size);
  if (call.in.type() != call.out.type()) {
    refuse(call, options, "input and output differ in type");
  }
  if (is_whole_in(call.kind) && in != n * out) {
    refuse(call, options,
           "the input needs size() times the output's elements: " + counts_text(in, out));
  }
  if (is_whole_out(call.kind) && out != n * in) {
    refuse(call, options,
           "the output needs size() times the input's elements: " + counts_text(in, out));
  }
  if (is_whole) return;
  if (in != out) {
    refuse(call, options, "input and output differ in count: " + counts_text(in, out));
  }
  if (call.kind == Collective::kAllToAll && in % n != 0) {
    refuse(call, options,
           "both tensors need size() equal blocks: " + std::to_string(in) +
               " elements are no multiple of " + std::to_string(size) +
               "; all_to_all_v takes unequal ones");
  }
}

void check_overlap(const Communicator::Impl::Call& call, const CallOptions& options, int rank) {
  std::ptrdiff_t allowed = 0;
  if (is_whole_in(call.kind)) {
    allowed = rank * static_cast<std::ptrdiff_t>(call.out.bytes());
  } else if (is_whole_out(call.kind)) {
    allowed = -rank * static_cast<std::ptrdiff_t>(call.in.bytes());
  } else if (call.kind == Collective::kAllToAll) {
    allowed = kNeverShared;
  }
  check_apart(call, options, allowed);
}

std::unique_ptr<exec::Blocks> equal_pairs(std::size_t count, int size, int rank) {
  auto blocks = std::make_unique<exec::Blocks>();
  blocks->kind = Collective::kAllToAll;
  blocks->size = static_cast<std::uint32_t>(size);
  blocks->rank = static_cast<std::uint32_t>(rank);
  const auto n = static_cast<std::size_t>(size);
  for (std::size_t r = 0; r < n; ++r) blocks->in.push_back({r * (count / n), count / n});
  blocks->out = blocks->in;
  return blocks;
}

}  // namespace

[[noreturn]] void refuse(const Communicator::Impl::Call& call, const CallOptions& options,
                         const std::string& why, Code code) {
  std::string what = to_string(call.kind);
  if (call.unequal) what += "_v";
  if (!options.name.empty()) what += " '" + options.name + "'";
  throw Error(Status(code, why).with_operation(std::move(what)));
}

void check_view(const ConstTensorView& view, const Communicator::Impl::Call& call,
                const CallOptions& options) {
  if (view.device().kind != DeviceKind::kCpu) {
    refuse(call, options, "CUDA tensors are not supported yet; move the tensor to the CPU",
           Code::kUnsupported);
  }
  if (view.data() == nullptr && view.count() != 0) refuse(call, options, "null data pointer");
}

void check_apart(const Communicator::Impl::Call& call, const CallOptions& options,
                 std::ptrdiff_t allowed) {
  const auto in = reinterpret_cast<std::intptr_t>(call.in.data());
  const auto out = reinterpret_cast<std::intptr_t>(call.out.data());
  if (out - in == allowed) return;
  const auto in_bytes = static_cast<std::intptr_t>(call.in.bytes());
  const auto out_bytes = static_cast<std::intptr_t>(call.out.bytes());
  if (in_bytes == 0 || out_bytes == 0) return;
  if (in + in_bytes <= out || out + out_bytes <= in) return;
  refuse(call, options,
         call.kind == Collective::kAllToAll
             ? "input and output overlap; all_to_all needs two tensors"
             : "input and output overlap partly");
}

namespace {

// The costs of the job with the hosts of this group's ranks.
plan::CostParams cost_of(const SessionContext& context, const exec::Group& group) {
  plan::CostParams cost = context.cost;
  if (context.host_of.empty()) return cost;  // not known: no hierarchies
  for (const int rank : group.world_ranks) {
    cost.host_of.push_back(context.host_of[static_cast<std::size_t>(rank)]);
  }
  return cost;
}

// "aggregator" is no schedule of the group's own ranks.
collective::Preferences own_preferences(const SessionContext& context) {
  collective::Preferences preferences = context.preferences;
  if (preferences.schedule == plan::kAggregated) preferences.schedule.clear();
  return preferences;
}

}  // namespace

Communicator::Impl::Impl(std::shared_ptr<SessionContext> context,
                         std::shared_ptr<exec::Group> group)
    : context_(std::move(context)),
      group_(std::move(group)),
      plans_(std::make_shared<collective::PlanCache>(
          group_->rank, static_cast<int>(group_->world_ranks.size()), cost_of(*context_, *group_),
          own_preferences(*context_), context_->staging)) {
  group_->plans = plans_;
  context_->engine->add_group(group_);
}

Communicator::Impl::Impl(std::shared_ptr<Impl> parent, std::shared_ptr<Batch::Impl> batch)
    : context_(parent->context_),
      group_(parent->group_),
      plans_(parent->plans_),
      parent_(std::move(parent)),
      batch_(std::move(batch)) {}

Communicator::Impl::~Impl() {
  if (batch_ == nullptr) context_->engine->remove_group(group_);
}

Work Communicator::Impl::launch(exec::OperationRequest&& request) {
  if (batch_ != nullptr) return Work(batch_->record(std::move(request)));
  return context_->engine->submit(std::move(request));
}

std::shared_ptr<WorkState> Communicator::Impl::launch(exec::MessageRequest&& request) {
  if (batch_ != nullptr) return batch_->record(std::move(request));
  return context_->engine->submit(std::move(request));
}

bool Communicator::Impl::is_reproducible(const Call& call, const CallOptions& options) const {
  return plan::is_reduction(call.kind) && options.reproducible.value_or(context_->reproducible);
}

void Communicator::Impl::complete_request(exec::OperationRequest& request, const Call& call,
                                          const CallOptions& options) {
  request.group = group_.get();
  request.in = call.in.data();
  request.out = call.out.data();
  request.op = call.op;
  request.divisor = call.op == ReduceOp::kAverage ? size() : 0;
  request.root = call.root;
  if (!options.name.empty()) request.name = options.name;
  request.background = options.background;
  request.reproducible = is_reproducible(call, options);
  request.timeout =
      options.timeout.count() > 0 ? options.timeout.count() * kMillisecond : context_->timeout;
}

Work Communicator::Impl::submit(const Call& call, const CallOptions& options) {
  if (wants_aggregators(call.kind, options)) return submit_aggregated(call, options);
  const int root = call.root < 0 ? 0 : call.root;
  auto planned = plans_->find({call.kind, call.in.type(), call.count, root, options.schedule,
                               is_reproducible(call, options)});
  if (!planned.ok()) refuse(call, options, planned.status().message(), planned.status().code());
  exec::OperationRequest request =
      collective::make_request(*planned.value(), call.kind, call.in.type(), call.count);
  if (call.kind == Collective::kAllToAll) {
    const std::size_t block_count = request.block_count;
    request = collective::make_request(*planned.value(), call.in.type(),
                                       equal_pairs(call.in.count(), size(), rank()));
    request.block_count = block_count;
  }
  complete_request(request, call, options);
  return launch(std::move(request));
}

void Communicator::Impl::check_values(const Call& call, const CallOptions& options) const {
  if (plan::is_reduction(call.kind) && !kernels::is_supported(call.in.type(), call.op)) {
    refuse(call, options,
           std::string(to_string(call.op)) + " is not defined for " + to_string(call.in.type()) +
               " tensors");
  }
  if (call.root >= size()) {
    refuse(call, options,
           "root " + std::to_string(call.root) + " is outside this group of " +
               std::to_string(size()));
  }
  if (plan::is_rooted(call.kind) && call.root < 0) {
    refuse(call, options, "the root must not be negative");
  }
  if (options.weight >= 0 && call.kind != Collective::kAllReduce) {
    refuse(call, options, "weights are for all_reduce only", Code::kUnsupported);
  }
}

Work Communicator::Impl::start(const Call& call, const CallOptions& options) {
  check_view(call.in, call, options);
  check_view(call.out, call, options);
  check_values(call, options);
  const bool one_tensor = call.kind == Collective::kGather || call.kind == Collective::kScatter;
  if (!one_tensor || rank() == call.root) {
    check_shapes(call, options, size());
    check_overlap(call, options, rank());
  }
  if (options.weight >= 0) return start_weighted(call, options);
  return submit(call, options);
}

}  // namespace syncline
