// The weighted average: sum(weight * x) / sum(weight), as two operations that end as one Work.
#include <atomic>
#include <climits>
#include <cmath>
#include <vector>

#include "kernels/reduce.h"
#include "session/batch_impl.h"
#include "session/communicator_impl.h"

namespace syncline {
namespace {

// Lives until both operations have completed.
struct Weighted {
  std::vector<std::byte> scaled;  // weight * x, in the accumulate type
  double total = 0;               // this rank's weight, then the sum
  TensorView out;
  std::shared_ptr<WorkState> whole;
  std::atomic<int> open{2};
  Mutex mutex;
  Status first_failure SYNCLINE_GUARDED_BY(mutex);
};

void finish(Weighted& state) {
  Status status;
  {
    MutexLock lock(state.mutex);
    status = state.first_failure;
  }
  if (status.ok()) {
    const DType type = state.out.type();
    const DType wide = kernels::accumulate_type(type);
    // Sample counts are whole numbers: a true division rounds once.
    const bool whole =
        state.total >= 1 && state.total <= INT_MAX && state.total == std::floor(state.total);
    if (!whole && state.total != 0) {
      kernels::scale(wide, state.scaled.data(), state.scaled.data(), state.out.count(),
                     1.0 / state.total);
    }
    kernels::copy(type, {state.out.data(), false}, {state.scaled.data(), wide != type},
                  state.out.count(), whole ? static_cast<int>(state.total) : 0);
  }
  state.whole->complete(std::move(status));
}

void when_done(const std::shared_ptr<Weighted>& state, Work work) {
  work.on_complete([state](const Status& status) {
    if (!status.ok()) {
      MutexLock lock(state->mutex);
      if (state->first_failure.ok()) state->first_failure = status;
    }
    if (state->open.fetch_sub(1) == 1) finish(*state);
  });
}

}  // namespace

Work Communicator::Impl::start_weighted(const Call& call, const CallOptions& options) {
  const DType type = call.in.type();
  const DType wide = kernels::accumulate_type(type);
  const bool is_float = wide == DType::kF32 || wide == DType::kF64;
  if (call.op != ReduceOp::kAverage || !is_float || !std::isfinite(options.weight)) {
    throw Error(Status(Code::kInvalidArgument,
                       "a weight needs the average of a float tensor and must be finite")
                    .with_operation(to_string(call.kind)));
  }
  auto state = std::make_shared<Weighted>();
  state->scaled.resize(call.count * size_of(wide));
  state->total = options.weight;
  state->out = call.out;
  state->whole = std::make_shared<WorkState>(context_->engine);
  kernels::copy(type, {state->scaled.data(), wide != type}, {call.in.data(), false}, call.count);
  kernels::scale(wide, state->scaled.data(), state->scaled.data(), call.count, options.weight);

  CallOptions plain = options;
  plain.weight = -1;
  const TensorView data(state->scaled.data(), call.count, wide);
  const TensorView total(&state->total, 1);
  Call data_call{Collective::kAllReduce, data, data, call.count, ReduceOp::kSum, -1};
  Call total_call{Collective::kAllReduce, total, total, 1, ReduceOp::kSum, -1};
  if (batch_ != nullptr) batch_->hold(state->whole);
  auto data_work = submit(data_call, plain);
  plain.schedule.clear();
  auto total_work = submit(total_call, plain);
  when_done(state, std::move(data_work));
  when_done(state, std::move(total_work));
  return Work(state->whole);
}

}  // namespace syncline
