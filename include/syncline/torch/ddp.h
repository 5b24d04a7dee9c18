// DistributedDataParallel for the LibTorch C++ frontend.
#ifndef SYNCLINE_TORCH_DDP_H_
#define SYNCLINE_TORCH_DDP_H_

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "syncline/communicator.h"
#include "syncline/torch/comm_hook.h"
#include "syncline/torch/ddp_guards.h"
#include "syncline/torch/ddp_options.h"
#include "syncline/torch/outputs.h"
#include "syncline/torch/step_stats.h"

namespace torch {
namespace nn {
template <typename Contained>
class ModuleHolder;
}  // namespace nn
}  // namespace torch

namespace syncline {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

namespace torch_detail {

template <class Dict>
NamedTensors to_named_tensors(const Dict& dict) {
  NamedTensors result;
  for (const auto& item : dict) result.emplace_back(item.key(), item.value());
  return result;
}

}  // namespace torch_detail

// Keeps the copies of a model in step; everything that does not depend on the module's type.
// Externally synchronised: one thread runs forward and backward.
//
// Construction is collective. Names, shapes, types and requires_grad of all tensors are compared
// across ranks (kMismatch names tensor and rank), then rank 0's values replace the others'. Tensors
// on other devices than the CPU throw kUnsupported.
//
// Gradients. Parameters are grouped into buckets in reverse order. A bucket is reduced as soon as
// its gradients and all earlier buckets are ready, while backward goes on; so the order of
// exchanges is the same on every rank whatever order gradients arrive in. When backward() returns,
// .grad holds the mean over ranks of what each rank's .grad would have been alone (each rank's
// multiplied by 1 / world size, then summed: PyTorch's rule, bit for bit in f32 and f64; 16-bit
// floats are summed in f32 and rounded once). It throws Error when the exchange failed; .grad then
// keeps this rank's own values.
//
// Parameters that a step does not use need no flag: unused on every rank, .grad is left as it is
// (undefined, usually); used on some ranks, the others count as zero. A parameter that is unused in
// every step delays its bucket to the end of backward: freeze it before wrapping. A backward that
// throws on one rank makes the same backward throw on all others.
class DistributedDataParallelBase {
 public:
  DistributedDataParallelBase(NamedTensors parameters, NamedTensors buffers,
                              const Communicator& world, const DdpOptions& options);
  ~DistributedDataParallelBase();
  DistributedDataParallelBase(const DistributedDataParallelBase&) = delete;
  DistributedDataParallelBase& operator=(const DistributedDataParallelBase&) = delete;

  // Runs fn(args...) as a forward pass: for entry points other than forward, e.g.
  //   auto z = ddp.pass([&](auto x) { return net->encode(x); }, images);
  template <class F, class... Args>
  decltype(auto) pass(F&& fn, Args&&... args) {
    return run(true, std::forward<F>(fn), std::forward<Args>(args)...);
  }

  // While the guard lives, a backward exchanges nothing (accumulation). What counts is where
  // backward() runs; covering the forward too is harmless and keeps code that PyTorch would need.
  [[nodiscard]] SyncGuard no_sync() { return sync_when(false); }
  [[nodiscard]] SyncGuard sync_when(bool sync);

  // Samples behind the loss of the following backward calls, until set again. With it the gradient
  // is sum(n_r * g_r) / sum(n_r) over ranks r, where n_r adds up over accumulated backwards: the
  // exact per-sample mean when each loss is a mean over the rank's samples. All ranks call it or
  // none does (kMismatch). Never called: the plain mean. n >= 0.
  void set_samples(std::int64_t n);

  // For ranks with unequal numbers of batches: see JoinGuard. Collective in effect: every rank
  // holds one around its loop, or none does.
  [[nodiscard]] JoinGuard join(JoinDivisor divisor = JoinDivisor::kInitialWorldSize);

  // Before the first backward, on every rank in the same order.
  void register_comm_hook(CommHook hook);

  // Times of the last synchronised backward.
  const StepStats& last_step() const;
  // The group that exchanges gradients (an own split of the one given to the constructor).
  Communicator& communicator();

 protected:
  template <class F, class... Args>
  decltype(auto) run(bool training, F&& fn, Args&&... args) {
    before_forward(training);
    if constexpr (std::is_void_v<std::invoke_result_t<F, Args...>>) {
      std::invoke(std::forward<F>(fn), std::forward<Args>(args)...);
    } else {
      std::invoke_result_t<F, Args...> result =
          std::invoke(std::forward<F>(fn), std::forward<Args>(args)...);
      for_each_tensor(result, [this](const at::Tensor& output) { watch(output); });
      return result;
    }
  }

 private:
  void before_forward(bool training);
  void watch(const at::Tensor& output);

  std::shared_ptr<torch_detail::Reducer> reducer_;
};

// Wraps a module; M is deduced:
//   DistributedDataParallel ddp(net, session.world());
//   auto loss = loss_fn(ddp(x), y);
template <class M = void>
class DistributedDataParallel : public DistributedDataParallelBase {
 public:
  DistributedDataParallel(std::shared_ptr<M> module, const Communicator& world,
                          const DdpOptions& options = {})
      : DistributedDataParallelBase(torch_detail::to_named_tensors(module->named_parameters()),
                                    torch_detail::to_named_tensors(module->named_buffers()), world,
                                    options),
        module_(std::move(module)) {}
  DistributedDataParallel(const ::torch::nn::ModuleHolder<M>& holder, const Communicator& world,
                          const DdpOptions& options = {})
      : DistributedDataParallel(holder.ptr(), world, options) {}

  // Returns module->forward(args...).
  template <class... Args>
  decltype(auto) operator()(Args&&... args) {
    M* module = module_.get();
    return run(
        module->is_training(),
        [module](auto&&... a) -> decltype(auto) {
          return module->forward(std::forward<decltype(a)>(a)...);
        },
        std::forward<Args>(args)...);
  }

  const std::shared_ptr<M>& module() const { return module_; }

 private:
  std::shared_ptr<M> module_;
};

// For torch::jit::Module and hand-written forwards: the caller names the tensors and runs each
// forward through pass().
template <>
class DistributedDataParallel<void> : public DistributedDataParallelBase {
 public:
  DistributedDataParallel(NamedTensors parameters, NamedTensors buffers, const Communicator& world,
                          const DdpOptions& options = {})
      : DistributedDataParallelBase(std::move(parameters), std::move(buffers), world, options) {}
};

template <class M>
DistributedDataParallel(const ::torch::nn::ModuleHolder<M>&, const Communicator&,
                        const DdpOptions& = {}) -> DistributedDataParallel<M>;
template <class M>
DistributedDataParallel(std::shared_ptr<M>, const Communicator&, const DdpOptions& = {})
    -> DistributedDataParallel<M>;
DistributedDataParallel(NamedTensors, NamedTensors, const Communicator&, const DdpOptions& = {})
    ->DistributedDataParallel<void>;

}  // namespace syncline

#endif  // SYNCLINE_TORCH_DDP_H_
