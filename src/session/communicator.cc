#include "syncline/communicator.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "session/communicator_impl.h"

namespace syncline {

Communicator::Impl& usable(const std::shared_ptr<Communicator::Impl>& impl) {
  if (impl == nullptr) {
    throw Error(Status(Code::kFailedPrecondition, "this Communicator is empty"));
  }
  return *impl;
}

namespace {

// Two splits at once would give their groups the same id, in another order on each rank.
class OneSplit {
 public:
  explicit OneSplit(std::atomic<bool>& flag) : flag_(flag) {
    if (!flag_.exchange(true)) return;
    throw Error(Status(Code::kFailedPrecondition,
                       "another thread of this process is in split(); split one after the other")
                    .with_operation("split"));
  }
  ~OneSplit() { flag_ = false; }
  OneSplit(const OneSplit&) = delete;
  OneSplit& operator=(const OneSplit&) = delete;

 private:
  std::atomic<bool>& flag_;
};

}  // namespace

int Communicator::rank() const { return usable(impl_).rank(); }
int Communicator::size() const { return usable(impl_).size(); }

Work Communicator::all_reduce(TensorView inout, ReduceOp op, const CallOptions& options) {
  return all_reduce(inout, inout, op, options);
}

Work Communicator::all_reduce(ConstTensorView in, TensorView out, ReduceOp op,
                              const CallOptions& options) {
  return usable(impl_).start({Collective::kAllReduce, in, out, in.count(), op, -1}, options);
}

Work Communicator::reduce_scatter(ConstTensorView in, TensorView out, ReduceOp op,
                                  const CallOptions& options) {
  return usable(impl_).start({Collective::kReduceScatter, in, out, in.count(), op, -1}, options);
}

Work Communicator::all_gather(ConstTensorView in, TensorView out, const CallOptions& options) {
  return usable(impl_).start({Collective::kAllGather, in, out, out.count(), ReduceOp::kSum, -1},
                             options);
}

Work Communicator::broadcast(TensorView inout, int root, const CallOptions& options) {
  return usable(impl_).start(
      {Collective::kBroadcast, inout, inout, inout.count(), ReduceOp::kSum, root}, options);
}

Work Communicator::reduce(TensorView inout, int root, ReduceOp op, const CallOptions& options) {
  return reduce(inout, inout, root, op, options);
}

Work Communicator::reduce(ConstTensorView in, TensorView out, int root, ReduceOp op,
                          const CallOptions& options) {
  return usable(impl_).start({Collective::kReduce, in, out, in.count(), op, root}, options);
}

Work Communicator::gather(ConstTensorView in, TensorView out, int root,
                          const CallOptions& options) {
  Impl& impl = usable(impl_);
  if (impl.rank() != root) out = TensorView(nullptr, 0, in.type());
  const std::size_t whole = in.count() * static_cast<std::size_t>(impl.size());
  return impl.start({Collective::kGather, in, out, whole, ReduceOp::kSum, root}, options);
}

Work Communicator::scatter(ConstTensorView in, TensorView out, int root,
                           const CallOptions& options) {
  Impl& impl = usable(impl_);
  if (impl.rank() != root) in = ConstTensorView(nullptr, 0, out.type());
  const std::size_t whole = out.count() * static_cast<std::size_t>(impl.size());
  return impl.start({Collective::kScatter, in, out, whole, ReduceOp::kSum, root}, options);
}

Work Communicator::all_to_all(ConstTensorView in, TensorView out, const CallOptions& options) {
  Impl& impl = usable(impl_);
  const std::size_t whole = in.count() * static_cast<std::size_t>(impl.size());
  return impl.start({Collective::kAllToAll, in, out, whole, ReduceOp::kSum, -1}, options);
}

Work Communicator::barrier(const CallOptions& options) {
  return usable(impl_).start({Collective::kBarrier, {}, {}, 0, ReduceOp::kSum, -1}, options);
}

Communicator Communicator::split(int color, int key) const {
  Impl& impl = usable(impl_);
  if (impl.is_batched()) {
    throw Error(Status(Code::kFailedPrecondition,
                       "split() blocks and cannot be part of a batch; call it on the communicator")
                    .with_operation("split"));
  }
  SessionContext& context = *impl.context();
  const OneSplit one_split(context.splitting);
  using Row = std::array<std::int64_t, 3>;  // colour, key, first free group id
  const auto n = static_cast<std::size_t>(size());
  const Row mine{color, key, context.next_group_id.load()};
  std::vector<Row> rows(n);
  CallOptions options;
  options.name = "split";
  Communicator self(impl_);
  self.all_gather({mine.data(), mine.size()}, {rows.data()->data(), 3 * n}, options).wait();

  std::vector<std::int64_t> colors;
  std::int64_t first_id = 0;
  for (const Row& row : rows) {
    if (row[0] >= 0) colors.push_back(row[0]);
    first_id = std::max(first_id, row[2]);
  }
  std::sort(colors.begin(), colors.end());
  colors.erase(std::unique(colors.begin(), colors.end()), colors.end());
  context.take_group_ids(
      static_cast<std::uint32_t>(first_id + static_cast<std::int64_t>(colors.size())));
  if (color < 0) return Communicator();

  std::vector<std::size_t> members;
  for (std::size_t r = 0; r < n; ++r) {
    if (rows[r][0] == color) members.push_back(r);
  }
  std::stable_sort(members.begin(), members.end(),
                   [&](std::size_t a, std::size_t b) { return rows[a][1] < rows[b][1]; });
  auto group = std::make_shared<exec::Group>();
  const auto index = std::lower_bound(colors.begin(), colors.end(), color) - colors.begin();
  group->id = static_cast<std::uint32_t>(first_id + index);
  for (const std::size_t r : members) {
    if (static_cast<int>(r) == rank()) group->rank = static_cast<int>(group->peers.size());
    group->peers.push_back(impl.group()->peers[r]);
    group->world_ranks.push_back(impl.group()->world_ranks[r]);
  }
  return Communicator(std::make_shared<Impl>(impl.context(), std::move(group)));
}

PlanInfo Communicator::plan(Collective kind, DType type, std::size_t count,
                            const CallOptions& options) const {
  Impl& impl = usable(impl_);
  if (kind == Collective::kAllToAll) count *= static_cast<std::size_t>(size());
  const collective::Query query{kind,
                                type,
                                count,
                                0,
                                options.schedule,
                                options.reproducible.value_or(impl.context()->reproducible)};
  collective::PlanCache& plans = impl.plans_for(kind, options);
  auto planned = plans.find(query);
  throw_if_error(planned.status());
  auto predicted = plans.predict(query);
  throw_if_error(predicted.status());
  const collective::Planned& plan = *planned.value();
  PlanInfo info;
  info.schedule = plan.program->name;
  info.transport = size() == 1 ? "none" : impl.context()->transport;
  info.segment_bytes = plan.segment_bytes;
  info.predicted_us = predicted.value() * 1e6;
  info.reason = plan.reason;
  return info;
}

Status Communicator::status() const {
  Impl& impl = usable(impl_);
  return impl.context()->engine->group_status(*impl.group());
}

}  // namespace syncline
