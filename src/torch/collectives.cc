#include "syncline/torch/collectives.h"

#include <condition_variable>
#include <functional>

#include "base/mutex.h"
#include "torch/compat.h"
#include "torch/dense.h"

namespace syncline {
namespace torch_detail {

// Thread-safe. The result of an operation on its way into a strided tensor.
struct CopyBack {
  at::Tensor dense;    // what travels
  at::Tensor strided;  // where it goes on success

  void finish(const Status& status) {
    if (status.ok()) {
      const NoGrad no_grad;
      silent_alias(strided).copy_(dense);
    }
    {
      const MutexLock lock(mutex);
      done = true;
    }
    changed.notify_all();
  }
  bool wait_for(std::chrono::nanoseconds limit) {
    std::unique_lock<std::mutex> lock(mutex.native());
    return changed.wait_for(lock, limit, [this] { return done; });
  }

  Mutex mutex;
  std::condition_variable changed;
  bool done = false;  // guarded by mutex
};

namespace {

// The tensor as the wire needs it: itself, or a row-major copy.
at::Tensor as_input(const at::Tensor& tensor, const char* what) {
  require_dense_cpu(tensor, what);
  const NoGrad no_grad;
  return tensor.contiguous();
}

at::Tensor as_output(const at::Tensor& tensor, const char* what) {
  require_dense_cpu(tensor, what);
  for (std::int64_t d = 0; d < tensor.dim(); ++d) {
    if (tensor.size(d) > 1 && tensor.stride(d) == 0) {
      throw Error(Status(Code::kInvalidArgument,
                         std::string(what) + ": the output " + shape_text(tensor.sizes()) +
                             " is expanded, several elements share one place; pass a clone()"));
    }
  }
  const NoGrad no_grad;
  return tensor.contiguous();
}

// Holds `in` and `out`; `dense` is what `start` works on in place of `out`.
TensorWork run(const at::Tensor& in, const at::Tensor& out, const at::Tensor& dense,
               const std::function<Work()>& start) {
  Work work = start();
  if (dense.data_ptr() == out.data_ptr()) {
    work.on_complete([in, out](const Status&) {});
    return {work, nullptr};
  }
  auto copy_back = std::make_shared<CopyBack>();
  copy_back->dense = dense;
  copy_back->strided = out;
  work.on_complete([in, copy_back](const Status& status) { copy_back->finish(status); });
  return {work, copy_back};
}

}  // namespace
}  // namespace torch_detail

using torch_detail::as_input;
using torch_detail::as_output;
using torch_detail::run;
using torch_detail::view_of;

void TensorWork::wait() {
  work_.wait();
  while (copy_back_ && !copy_back_->wait_for(std::chrono::seconds(1))) {
  }
}

Status TensorWork::wait_for(std::chrono::nanoseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  const Status status = work_.wait_for(limit);
  if (!status.ok() || !copy_back_) return status;
  if (copy_back_->wait_for(deadline - std::chrono::steady_clock::now())) return status;
  return Status(Code::kTimeout, "the result is being copied into a strided tensor");
}

bool TensorWork::done() const {
  return work_.done() && (!copy_back_ || copy_back_->wait_for(std::chrono::nanoseconds(0)));
}

Status TensorWork::status() const { return work_.status(); }

TensorWork all_reduce(Communicator& comm, const at::Tensor& inout, ReduceOp op,
                      const CallOptions& options) {
  const at::Tensor dense = as_output(inout, "all_reduce");
  return run(inout, inout, dense, [&] { return comm.all_reduce(view_of(dense), op, options); });
}

TensorWork all_reduce(Communicator& comm, const at::Tensor& in, const at::Tensor& out, ReduceOp op,
                      const CallOptions& options) {
  const at::Tensor source = as_input(in, "all_reduce");
  const at::Tensor dense = as_output(out, "all_reduce");
  return run(source, out, dense,
             [&] { return comm.all_reduce(view_of(source), view_of(dense), op, options); });
}

TensorWork reduce_scatter(Communicator& comm, const at::Tensor& in, const at::Tensor& out,
                          ReduceOp op, const CallOptions& options) {
  const at::Tensor source = as_input(in, "reduce_scatter");
  const at::Tensor dense = as_output(out, "reduce_scatter");
  return run(source, out, dense,
             [&] { return comm.reduce_scatter(view_of(source), view_of(dense), op, options); });
}

TensorWork all_gather(Communicator& comm, const at::Tensor& in, const at::Tensor& out,
                      const CallOptions& options) {
  const at::Tensor source = as_input(in, "all_gather");
  const at::Tensor dense = as_output(out, "all_gather");
  return run(source, out, dense,
             [&] { return comm.all_gather(view_of(source), view_of(dense), options); });
}

TensorWork broadcast(Communicator& comm, const at::Tensor& inout, int root,
                     const CallOptions& options) {
  const at::Tensor dense = as_output(inout, "broadcast");
  return run(inout, inout, dense, [&] { return comm.broadcast(view_of(dense), root, options); });
}

TensorWork reduce(Communicator& comm, const at::Tensor& inout, int root, ReduceOp op,
                  const CallOptions& options) {
  const at::Tensor dense = as_output(inout, "reduce");
  return run(inout, inout, dense, [&] { return comm.reduce(view_of(dense), root, op, options); });
}

}  // namespace syncline
