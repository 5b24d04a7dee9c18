// Communication hooks: what happens to a gradient bucket between backward and the optimiser.
#ifndef SYNCLINE_TORCH_COMM_HOOK_H_
#define SYNCLINE_TORCH_COMM_HOOK_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "syncline/types.h"
#include "syncline/work.h"

namespace syncline {

// One bucket, ready to be exchanged. `tensor` is flat (1-d, contiguous) and holds this rank's
// share: for f32 and f64 already multiplied by 1 / world size (or by the weight of set_samples), so
// the sum over ranks is the result; for 16-bit floats `op` is kAverage and the values are unscaled.
struct GradBucket {
  std::size_t index = 0;  // launch order, the same on every rank
  bool last = false;      // no bucket follows in this step
  at::Tensor tensor;
  ReduceOp op = ReduceOp::kSum;
  std::vector<at::Tensor> parameters;  // in the order of their slices of `tensor`
};

// What a hook returns: something whose wait() gives the exchanged bucket, of the same shape as
// GradBucket::tensor (it may be that tensor). wait() is called once, by the thread that runs
// backward, in bucket order; it may block and throw.
class GradFuture {
 public:
  GradFuture() = default;
  GradFuture(Work work, at::Tensor result)
      : wait_([w = std::move(work), r = std::move(result)]() mutable { return w.wait(), r; }) {}
  explicit GradFuture(std::function<at::Tensor()> wait) : wait_(std::move(wait)) {}

  bool valid() const { return wait_ != nullptr; }
  at::Tensor wait() { return wait_(); }

 private:
  std::function<at::Tensor()> wait_;
};

using NextCommHook = std::function<GradFuture(GradBucket)>;
// Hooks form a stack: the one registered last sees the bucket first and calls `next` for what lies
// below it; the lowest is the all_reduce. Runs inside backward and should not block. Every rank
// registers the same hooks in the same order.
using CommHook = std::function<GradFuture(GradBucket bucket, const NextCommHook& next)>;

}  // namespace syncline

#endif  // SYNCLINE_TORCH_COMM_HOOK_H_
