// KVStoreOptimizer: training through a key-value store, whose servers run the optimiser.
#ifndef SYNCLINE_TORCH_KVSTORE_OPTIMIZER_H_
#define SYNCLINE_TORCH_KVSTORE_OPTIMIZER_H_

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "syncline/kvstore.h"

namespace syncline {

class KVStoreOptimizerOptions {
 public:
  // In front of each parameter's name, so that several models share a store.
  const std::string& prefix() const { return prefix_; }
  KVStoreOptimizerOptions& prefix(std::string v) { return prefix_ = std::move(v), *this; }
  // Front layers' gradients and weights travel first, so that the next forward can begin before the
  // last gradient has arrived. Off: in the order of calls.
  bool priorities() const { return priorities_; }
  KVStoreOptimizerOptions& priorities(bool v) { return priorities_ = v, *this; }

 private:
  std::string prefix_;
  bool priorities_ = true;
};

// Takes the place of a torch::optim optimiser:
//
//   auto kv = session.kvstore(KVStoreOptions().reduce(Reduce::kMeanBySamples));
//   KVStoreOptimizer optimizer(kv, *net, optim::Sgd(0.1).momentum(0.9));
//   for (...) {
//     optimizer.wait();                       // the newest weights are there
//     loss_fn(net->forward(x), y).backward();  // gradients leave as they become final
//     optimizer.step();                       // ends the clock, asks for new weights
//     optimizer.zero_grad();
//   }
//
// Externally synchronised: one thread runs forward, backward and this. Parameters are dense CPU
// tensors; each is a key. Construction takes worker 0's values on all workers, and blocks.
//
// Overlap: a gradient is pushed as soon as backward has made it, while backward goes on; step()
// pushes the rest and asks for all weights, and wait_for() lets a forward begin with its first
// layer while later layers' weights still travel.
class KVStoreOptimizer {
 public:
  using Parameters = std::vector<std::pair<std::string, at::Tensor>>;

  KVStoreOptimizer(KVStore& store, const Parameters& parameters, const optim::Optimizer& optimizer,
                   const KVStoreOptimizerOptions& options = {});
  // Of a torch::nn::Module.
  template <class M, class = decltype(std::declval<M&>().named_parameters())>
  KVStoreOptimizer(KVStore& store, M& module, const optim::Optimizer& optimizer,
                   const KVStoreOptimizerOptions& options = {})
      : KVStoreOptimizer(store, named(module), optimizer, options) {}
  ~KVStoreOptimizer();
  KVStoreOptimizer(const KVStoreOptimizer&) = delete;
  KVStoreOptimizer& operator=(const KVStoreOptimizer&) = delete;

  // False: backward pushes nothing (accumulation); the last backward before step() has it true.
  // Returns the former setting.
  bool set_sync(bool sync);
  // Samples behind the following backwards, for Reduce::kMeanBySamples.
  void set_samples(double n);
  // From the next push on, on every worker alike (each in its own clock).
  void set_lr(double lr);

  // Pushes gradients that have not left yet, ends the clock, asks for all weights. Does not block.
  // A parameter without a gradient contributes nothing.
  void step();
  // Blocks until all weights that step() asked for are there; throws Error.
  void wait();
  // The same for one parameter, or for all of a module.
  void wait_for(const at::Tensor& parameter);
  template <class M, class = decltype(std::declval<M&>().parameters())>
  void wait_for(M& module) {
    for (const auto& parameter : module.parameters()) wait_for(parameter);
  }
  // Asks for all weights again and waits for them: others may have pushed meanwhile.
  void refresh();
  // Drops gradients, as zero_grad(set_to_none = true) does.
  void zero_grad();

  // Of waiting in wait() and wait_for() since the last step(), microseconds.
  double waited_us() const;

 private:
  template <class M>
  static Parameters named(M& module) {
    Parameters result;
    for (const auto& item : module.named_parameters())
      result.emplace_back(item.key(), item.value());
    return result;
  }

  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace syncline

#endif  // SYNCLINE_TORCH_KVSTORE_OPTIMIZER_H_
