#include "session/communicator_impl.h"

#include <cmath>

#include "collective/request.h"
#include "kernels/reduce.h"
#include "plan/partition.h"

namespace syncline {
namespace {

[[noreturn]] void refuse(const Communicator::Impl::Call& call, const CallOptions& options,
                         const std::string& why, Code code = Code::kInvalidArgument) {
  std::string what = to_string(call.kind);
  if (!options.name.empty()) what += " '" + options.name + "'";
  throw Error(Status(code, why).with_operation(std::move(what)));
}

std::string counts(std::size_t in, std::size_t out) {
  return std::to_string(in) + " in, " + std::to_string(out) + " out";
}

void check_view(const ConstTensorView& view, const Communicator::Impl::Call& call,
                const CallOptions& options) {
  if (view.device().kind != DeviceKind::kCpu) {
    refuse(call, options, "CUDA tensors are not supported yet; move the tensor to the CPU",
           Code::kUnsupported);
  }
  if (view.data() == nullptr && view.count() != 0) refuse(call, options, "null data pointer");
}

void check_views(const Communicator::Impl::Call& call, const CallOptions& options, int size) {
  const ConstTensorView& in = call.in;
  const TensorView& out = call.out;
  check_view(in, call, options);
  check_view(out, call, options);
  if (in.type() != out.type()) refuse(call, options, "input and output differ in type");
  const auto n = static_cast<std::size_t>(size);
  switch (call.kind) {
    case Collective::kReduceScatter:
      if (in.count() != n * out.count()) {
        refuse(call, options,
               "the input needs size() times the output's elements: " +
                   counts(in.count(), out.count()));
      }
      break;
    case Collective::kAllGather:
      if (out.count() != n * in.count()) {
        refuse(call, options,
               "the output needs size() times the input's elements: " +
                   counts(in.count(), out.count()));
      }
      break;
    default:
      if (in.count() != out.count()) {
        refuse(call, options,
               "input and output differ in count: " + counts(in.count(), out.count()));
      }
  }
}

void check_overlap(const Communicator::Impl::Call& call, const CallOptions& options, int rank) {
  const auto* in = static_cast<const std::byte*>(call.in.data());
  const auto* out = static_cast<const std::byte*>(call.out.data());
  if (call.in.bytes() == 0 || call.out.bytes() == 0) return;
  if (in + call.in.bytes() <= out || out + call.out.bytes() <= in) return;
  const std::byte* allowed = in;
  if (call.kind == Collective::kReduceScatter) {
    allowed = in + static_cast<std::size_t>(rank) * call.out.bytes();
  } else if (call.kind == Collective::kAllGather) {
    allowed = in - static_cast<std::size_t>(rank) * call.in.bytes();
  }
  if (out != allowed) refuse(call, options, "input and output overlap partly");
}

// The costs of the job with the hosts of this group's ranks.
plan::CostParams cost_of(const SessionContext& context, const exec::Group& group) {
  plan::CostParams cost = context.cost;
  if (context.host_of.empty()) return cost;  // not known: no hierarchies
  for (const int rank : group.world_ranks) {
    cost.host_of.push_back(context.host_of[static_cast<std::size_t>(rank)]);
  }
  return cost;
}

}  // namespace

Communicator::Impl::Impl(std::shared_ptr<SessionContext> context,
                         std::shared_ptr<exec::Group> group)
    : context_(std::move(context)),
      group_(std::move(group)),
      plans_(std::make_shared<collective::PlanCache>(
          group_->rank, static_cast<int>(group_->world_ranks.size()), cost_of(*context_, *group_),
          context_->preferences, context_->staging)) {
  group_->plans = plans_;
  context_->engine->add_group(group_);
}

Communicator::Impl::~Impl() { context_->engine->remove_group(group_); }

std::shared_ptr<WorkState> Communicator::Impl::submit(const Call& call,
                                                      const CallOptions& options) {
  const int root = call.root < 0 ? 0 : call.root;
  const bool reproducible =
      plan::is_reduction(call.kind) && options.reproducible.value_or(context_->reproducible);
  auto planned =
      plans_->find({call.kind, call.in.type(), call.count, root, options.schedule, reproducible});
  if (!planned.ok()) refuse(call, options, planned.status().message(), planned.status().code());
  exec::OperationRequest request =
      collective::make_request(*planned.value(), call.kind, call.in.type(), call.count);
  request.group = group_.get();
  request.in = call.in.data();
  request.out = call.out.data();
  request.op = call.op;
  request.divisor = call.op == ReduceOp::kAverage ? size() : 0;
  request.root = call.root;
  request.name = options.name;
  request.background = options.background;
  request.reproducible = reproducible;
  request.timeout =
      options.timeout.count() > 0 ? options.timeout.count() * kMillisecond : context_->timeout;
  return context_->engine->submit(std::move(request));
}

Work Communicator::Impl::start(const Call& call, const CallOptions& options) {
  check_views(call, options, size());
  check_overlap(call, options, rank());
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
  const bool rooted = call.kind == Collective::kBroadcast || call.kind == Collective::kReduce;
  if (rooted && call.root < 0) refuse(call, options, "the root must not be negative");
  if (options.weight >= 0 && call.kind != Collective::kAllReduce) {
    refuse(call, options, "weights are for all_reduce only", Code::kUnsupported);
  }
  if (options.weight >= 0) return start_weighted(call, options);
  return Work(submit(call, options));
}

}  // namespace syncline
