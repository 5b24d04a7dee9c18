// The `_v` collectives: one block per rank as in the plain forms, but of unequal lengths. They run
// the same schedules; exec/blocks.h says where the blocks lie and what each message declares.
#include <numeric>

#include "collective/request.h"
#include "plan/partition.h"
#include "session/communicator_impl.h"

namespace syncline {
namespace {

using Call = Communicator::Impl::Call;
using Counts = std::vector<std::size_t>;

// Ranks may know only their own counts, so that nothing about the plan may depend on them.
constexpr std::size_t kPlannedBytes = 1 << 20;
constexpr const char* kDefaultSchedule = "one_shot";

// Blocks one behind the other that fill the tensor.
std::vector<exec::Blocks::Block> lay_out(const Call& call, const CallOptions& options,
                                         const Counts& counts, const ConstTensorView& tensor,
                                         int size, const char* which) {
  if (counts.size() != static_cast<std::size_t>(size)) {
    refuse(call, options,
           std::string(which) + " blocks: give one count per rank, " + std::to_string(size) +
               " in all, not " + std::to_string(counts.size()));
  }
  std::vector<exec::Blocks::Block> blocks;
  std::size_t begin = 0;
  for (const std::size_t count : counts) {
    if (count > tensor.count() - begin) break;
    blocks.push_back({begin, count});
    begin += count;
  }
  if (blocks.size() != counts.size() || begin != tensor.count()) {
    refuse(call, options,
           std::string(which) + " blocks do not fill the tensor of " +
               std::to_string(tensor.count()) + " elements; make the counts add up to that");
  }
  return blocks;
}

void check_own(const Call& call, const CallOptions& options, std::size_t given,
               std::size_t expected) {
  if (given == expected) return;
  refuse(call, options,
         "this rank gives itself " + std::to_string(given) + " elements and expects " +
             std::to_string(expected) + "; make the tensor and the counts agree");
}

// `out` may be this rank's block of `in`, or the other way round.
std::ptrdiff_t shared_offset(const exec::Blocks& blocks, std::size_t rank, DType type) {
  if (blocks.kind == Collective::kAllToAll) return kNeverShared;
  const auto bytes = [&](const exec::Blocks::Block& block) {
    return static_cast<std::ptrdiff_t>(block.begin * size_of(type));
  };
  if (blocks.in.size() > 1) return bytes(blocks.in[rank]);
  return blocks.out.size() > 1 ? -bytes(blocks.out[rank]) : 0;
}

std::unique_ptr<exec::Blocks> make_blocks(const Call& call,
                                          const Communicator::Impl::BlockCounts& counts,
                                          const CallOptions& options, int size, int rank) {
  auto blocks = std::make_unique<exec::Blocks>();
  blocks->kind = call.kind;
  blocks->size = static_cast<std::uint32_t>(size);
  blocks->rank = static_cast<std::uint32_t>(rank);
  blocks->unequal = true;
  const auto own = static_cast<std::size_t>(rank);
  const bool gives = call.kind != Collective::kScatter || rank == call.root;
  const bool gets = call.kind != Collective::kGather || rank == call.root;
  const bool many_in = call.kind == Collective::kAllToAll || call.kind == Collective::kScatter ||
                       call.kind == Collective::kReduceScatter;
  const bool many_out = call.kind == Collective::kAllToAll || call.kind == Collective::kGather ||
                        call.kind == Collective::kAllGather;
  if (gives && many_in) blocks->in = lay_out(call, options, counts.in, call.in, size, "input");
  if (gets && many_out) blocks->out = lay_out(call, options, counts.out, call.out, size, "output");
  if (gives && !many_in) blocks->in = {{0, call.in.count()}};
  if (gets && !many_out) blocks->out = {{0, call.out.count()}};
  if (gives && gets) {
    check_own(call, options, blocks->in[many_in ? own : 0].count,
              blocks->out[many_out ? own : 0].count);
    check_apart(call, options, shared_offset(*blocks, own, call.in.type()));
  }
  return blocks;
}

}  // namespace

Work Communicator::Impl::start_unequal(Call call, const BlockCounts& counts,
                                       const CallOptions& options) {
  call.unequal = true;
  check_view(call.in, call, options);
  check_view(call.out, call, options);
  check_values(call, options);
  if (call.in.type() != call.out.type()) {
    refuse(call, options, "input and output differ in type");
  }
  auto blocks = make_blocks(call, counts, options, size(), rank());
  const std::string schedule = options.schedule.empty() ? kDefaultSchedule : options.schedule;
  const int root = call.root < 0 ? 0 : call.root;
  const std::size_t planned_count = kPlannedBytes / size_of(call.in.type());
  auto planned = plans_->find(
      {call.kind, call.in.type(), planned_count, root, schedule, is_reproducible(call, options)});
  if (!planned.ok()) refuse(call, options, planned.status().message(), planned.status().code());
  if (planned.value()->program->chunks != planned.value()->program->blocks) {
    refuse(call, options,
           "schedule '" + schedule +
               "' cuts blocks into parts; unequal blocks need one that does not, "
               "such as 'one_shot'",
           Code::kUnsupported);
  }
  exec::OperationRequest request =
      collective::make_request(*planned.value(), call.in.type(), std::move(blocks));
  complete_request(request, call, options);
  return Work(launch(std::move(request)));
}

Work Communicator::all_gather_v(ConstTensorView in, TensorView out, const Counts& counts,
                                const CallOptions& options) {
  return usable(impl_).start_unequal(
      {Collective::kAllGather, in, out, out.count(), ReduceOp::kSum, -1}, {{}, counts}, options);
}

Work Communicator::reduce_scatter_v(ConstTensorView in, TensorView out, const Counts& counts,
                                    ReduceOp op, const CallOptions& options) {
  return usable(impl_).start_unequal({Collective::kReduceScatter, in, out, in.count(), op, -1},
                                     {counts, {}}, options);
}

Work Communicator::gather_v(ConstTensorView in, TensorView out, const Counts& counts, int root,
                            const CallOptions& options) {
  Impl& impl = usable(impl_);
  if (impl.rank() != root) out = TensorView(nullptr, 0, in.type());
  return impl.start_unequal({Collective::kGather, in, out, 0, ReduceOp::kSum, root}, {{}, counts},
                            options);
}

Work Communicator::scatter_v(ConstTensorView in, TensorView out, const Counts& counts, int root,
                             const CallOptions& options) {
  Impl& impl = usable(impl_);
  if (impl.rank() != root) in = ConstTensorView(nullptr, 0, out.type());
  return impl.start_unequal({Collective::kScatter, in, out, 0, ReduceOp::kSum, root}, {counts, {}},
                            options);
}

Work Communicator::all_to_all_v(ConstTensorView in, TensorView out, const Counts& in_counts,
                                const Counts& out_counts, const CallOptions& options) {
  return usable(impl_).start_unequal({Collective::kAllToAll, in, out, 0, ReduceOp::kSum, -1},
                                     {in_counts, out_counts}, options);
}

}  // namespace syncline
