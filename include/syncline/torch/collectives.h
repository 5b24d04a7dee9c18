// Collectives on torch tensors: any strides, references held until the operation ends.
#ifndef SYNCLINE_TORCH_COLLECTIVES_H_
#define SYNCLINE_TORCH_COLLECTIVES_H_

#include <ATen/core/Tensor.h>

#include <chrono>
#include <memory>

#include "syncline/communicator.h"

namespace syncline {

namespace torch_detail {
struct CopyBack;
}

// Work of a collective on tensors. Thread-safe. Dropping it neither blocks nor cancels: results are
// still written, and memory is held until then.
class TensorWork {
 public:
  TensorWork() = default;  // already complete, ok
  TensorWork(Work work, std::shared_ptr<torch_detail::CopyBack> copy_back)
      : work_(std::move(work)), copy_back_(std::move(copy_back)) {}

  // As Work; complete means that the result is in the caller's tensor, also when that is strided.
  void wait();
  Status wait_for(std::chrono::nanoseconds limit);
  bool done() const;
  Status status() const;

 private:
  Work work_;
  std::shared_ptr<torch_detail::CopyBack> copy_back_;
};

// Rules for all of them: elements meet by logical index, whatever the strides on each rank; shapes
// need not agree, counts must. Tensors on other devices than the CPU, sparse and complex tensors
// throw kUnsupported; an expanded (stride 0) output throws kInvalidArgument; nothing was sent then.
// Autograd does not see the operation.
TensorWork all_reduce(Communicator& comm, const at::Tensor& inout, ReduceOp op = ReduceOp::kSum,
                      const CallOptions& options = {});
TensorWork all_reduce(Communicator& comm, const at::Tensor& in, const at::Tensor& out,
                      ReduceOp op = ReduceOp::kSum, const CallOptions& options = {});
// `in` holds size() blocks, `out` one; usually in.size(0) == size() * out.size(0).
TensorWork reduce_scatter(Communicator& comm, const at::Tensor& in, const at::Tensor& out,
                          ReduceOp op = ReduceOp::kSum, const CallOptions& options = {});
// `out` holds size() blocks of `in`'s count, in rank order.
TensorWork all_gather(Communicator& comm, const at::Tensor& in, const at::Tensor& out,
                      const CallOptions& options = {});
TensorWork broadcast(Communicator& comm, const at::Tensor& inout, int root,
                     const CallOptions& options = {});
// Ranks other than root keep their tensor bit for bit.
TensorWork reduce(Communicator& comm, const at::Tensor& inout, int root,
                  ReduceOp op = ReduceOp::kSum, const CallOptions& options = {});

}  // namespace syncline

#endif  // SYNCLINE_TORCH_COLLECTIVES_H_
