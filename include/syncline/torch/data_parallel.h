// DataParallel: one process, one model, several threads.
#ifndef SYNCLINE_TORCH_DATA_PARALLEL_H_
#define SYNCLINE_TORCH_DATA_PARALLEL_H_

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "syncline/torch/ddp.h"

namespace syncline {

namespace torch_detail {

// What DataParallel sees of one replica.
struct ReplicaTensors {
  NamedTensors parameters;
  NamedTensors buffers;
};

class ThreadReplicas;

}  // namespace torch_detail

// Externally synchronised; everything that does not depend on the module's type.
class DataParallelBase {
 public:
  explicit DataParallelBase(std::vector<torch_detail::ReplicaTensors> replicas);
  ~DataParallelBase();
  DataParallelBase(const DataParallelBase&) = delete;
  DataParallelBase& operator=(const DataParallelBase&) = delete;

  int threads() const;

 protected:
  using Compute = std::function<at::Tensor(int replica, const std::vector<at::Tensor>& inputs)>;
  at::Tensor forward(const at::Tensor& input, const Compute& compute);
  at::Tensor backward(const std::vector<at::Tensor>& inputs, const Compute& loss);

 private:
  std::shared_ptr<torch_detail::ThreadReplicas> replicas_;
};

// Splits each batch over `threads` threads of this process and leaves the whole batch's gradient in
// the wrapped module: train it like the module itself.
//   DataParallel dp(net, 4);
//   torch::optim::SGD opt(net->parameters(), 0.1);
//   auto loss = loss_fn(dp(x), y);      // forward in parallel
//   opt.zero_grad(); loss.backward();   // backward in parallel, gradients summed into net
//   opt.step();                         // replicas share net's memory: nothing to copy
// Replicas are made once, by `factory` or else module->clone(), and share the parameters' memory
// from then on; gradients are summed by the module's thread as by a parameter server. Buffers
// (BatchNorm) follow those of the module, whose thread sees the first part of each batch. Do not
// move or retype the module afterwards. CPU only (kUnsupported).
template <class M>
class DataParallel : public DataParallelBase {
 public:
  using Factory = std::function<std::shared_ptr<M>()>;

  DataParallel(std::shared_ptr<M> module, int threads, Factory factory = {})
      : DataParallel(make_modules(std::move(module), threads, factory)) {}
  DataParallel(const ::torch::nn::ModuleHolder<M>& holder, int threads, Factory factory = {})
      : DataParallel(holder.ptr(), threads, std::move(factory)) {}

  // Rows of `input` (dimension 0) are divided among the threads; the outputs are put together
  // again.
  at::Tensor operator()(const at::Tensor& input) {
    follow_mode();
    return forward(input, [this](int replica, const std::vector<at::Tensor>& part) {
      return modules_[static_cast<std::size_t>(replica)]->forward(part[0]);
    });
  }

  // Forward, loss and backward in parallel: loss(module, parts of the inputs...) is a mean over its
  // rows. Adds the gradient of the mean over all rows to .grad and returns that mean.
  template <class Loss, class... Inputs>
  at::Tensor backward(Loss&& loss, const Inputs&... inputs) {
    follow_mode();
    return DataParallelBase::backward(
        {inputs...}, [&](int replica, const std::vector<at::Tensor>& parts) {
          return call(loss, *modules_[static_cast<std::size_t>(replica)], parts,
                      std::index_sequence_for<Inputs...>());
        });
  }

 private:
  using Modules = std::vector<std::shared_ptr<M>>;

  explicit DataParallel(Modules modules)
      : DataParallelBase(tensors_of(modules)), modules_(std::move(modules)) {}

  static Modules make_modules(std::shared_ptr<M> module, int threads, const Factory& factory) {
    Modules modules = {module};
    for (int i = 1; i < threads; ++i) {
      modules.push_back(factory ? factory() : std::dynamic_pointer_cast<M>(module->clone()));
    }
    return modules;
  }

  static std::vector<torch_detail::ReplicaTensors> tensors_of(const Modules& modules) {
    std::vector<torch_detail::ReplicaTensors> result;
    for (const auto& m : modules) {
      result.push_back({torch_detail::to_named_tensors(m->named_parameters()),
                        torch_detail::to_named_tensors(m->named_buffers())});
    }
    return result;
  }

  void follow_mode() {
    for (auto& m : modules_) {
      if (m->is_training() != modules_[0]->is_training()) m->train(modules_[0]->is_training());
    }
  }

  template <class Loss, std::size_t... I>
  static at::Tensor call(Loss& loss, M& module, const std::vector<at::Tensor>& parts,
                         std::index_sequence<I...>) {
    return loss(module, parts[I]...);
  }

  Modules modules_;
};

template <class M>
DataParallel(const ::torch::nn::ModuleHolder<M>&, int) -> DataParallel<M>;
template <class M>
DataParallel(std::shared_ptr<M>, int) -> DataParallel<M>;

}  // namespace syncline

#endif  // SYNCLINE_TORCH_DATA_PARALLEL_H_
