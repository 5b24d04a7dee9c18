#include "syncline/torch/kvstore_optimizer.h"

#include <functional>
#include <utility>

#include "base/clock.h"
#include "torch/compat.h"
#include "torch/dense.h"

namespace syncline {

class KVStoreOptimizer::Impl : public std::enable_shared_from_this<KVStoreOptimizer::Impl> {
 public:
  Impl(KVStore& store, const Parameters& parameters, const optim::Optimizer& optimizer,
       const KVStoreOptimizerOptions& options)
      : store_(store), optimizer_(optimizer), options_(options) {
    store_.set_optimizer(optimizer_);
    for (const auto& [name, tensor] : parameters) {
      if (tensor.requires_grad()) add(name, tensor);
    }
    wait();
  }

  ~Impl() {
    for (Entry& entry : entries_) {
      if (entry.accumulator != nullptr) entry.accumulator->del_post_hook(entry.hook);
    }
  }

  void watch_gradients();

  bool set_sync(bool sync) { return std::exchange(sync_, sync); }
  void set_samples(double n) { samples_ = n; }
  void set_lr(double lr) {
    if (optimizer_.lr() == lr) return;
    optimizer_.lr(lr);
    store_.set_optimizer(optimizer_);
  }

  void on_gradient(std::size_t index) {
    if (!sync_) return;
    if (entries_[index].pushed) {
      throw Error(Status(Code::kFailedPrecondition,
                         "a second backward reached '" + entries_[index].key +
                             "' before step(); give all but the last set_sync(false)"));
    }
    push(index);
  }

  void step() {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (!entries_[i].pushed && entries_[i].tensor.grad().defined()) push(i);
      entries_[i].pushed = false;
    }
    store_.clock();
    waited_ = 0;
    pull_all();
  }

  void refresh() {
    wait();
    pull_all();
    wait();
  }

  void wait() {
    for (Entry& entry : entries_) wait_for(entry);
  }

  void wait_for(const at::Tensor& parameter) {
    for (Entry& entry : entries_) {
      if (entry.tensor.is_same(parameter)) return wait_for(entry);
    }
  }

  void zero_grad() {
    torch_detail::NoGrad no_grad;
    for (Entry& entry : entries_) entry.tensor.mutable_grad() = at::Tensor();
  }

  double waited_us() const { return static_cast<double>(waited_) / kMicrosecond; }

 private:
  struct Entry {
    std::string key;
    at::Tensor tensor;
    at::Tensor weights;   // the same memory without autograd, or a contiguous copy
    at::Tensor gradient;  // on its way
    bool pushed = false;
    Work pulled;
    std::shared_ptr<::torch::autograd::Node> accumulator;
    std::uintptr_t hook = 0;
  };

  // An answer may come after an error has taken the model away: its memory stays until then.
  void pull_all() {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      Entry& entry = entries_[i];
      entry.pulled = store_.pull(entry.key, torch_detail::view_of(entry.weights),
                                 Pull().priority(priority(i)));
      entry.pulled.on_complete([weights = entry.weights](const Status&) {});
    }
  }

  int priority(std::size_t index) const {
    return options_.priorities() ? -static_cast<int>(index) : 0;
  }

  void add(const std::string& name, const at::Tensor& tensor) {
    Entry entry;
    entry.key = options_.prefix() + name;
    torch_detail::require_dense_cpu(tensor, "KVStoreOptimizer: parameter '" + name + "'");
    entry.tensor = tensor;
    entry.weights = torch_detail::silent_alias(tensor).contiguous();
    store_.init(entry.key, torch_detail::view_of(entry.weights));
    entry.pulled = store_.pull(entry.key, torch_detail::view_of(entry.weights));
    entries_.push_back(std::move(entry));
  }

  // Only what has arrived has left its buffer: a gradient is held until its Work completes.
  void push(std::size_t index) {
    Entry& entry = entries_[index];
    torch_detail::NoGrad no_grad;
    const at::Tensor gradient = entry.tensor.grad().detach().contiguous();
    entry.pushed = true;
    Work work = store_.push(entry.key, torch_detail::view_of(gradient),
                            Push().priority(priority(index)).samples(samples_));
    work.on_complete([gradient](const Status&) {});
  }

  void wait_for(Entry& entry) {
    if (entry.pulled.done()) {
      throw_if_error(entry.pulled.status());
    } else {
      const Nanos begun = monotonic_now();
      entry.pulled.wait();
      waited_ += monotonic_now() - begun;
    }
    if (entry.weights.data_ptr() == entry.tensor.data_ptr()) return;
    torch_detail::silent_alias(entry.tensor).copy_(entry.weights);
  }

  KVStore& store_;
  optim::Optimizer optimizer_;
  const KVStoreOptimizerOptions options_;
  std::vector<Entry> entries_;
  bool sync_ = true;
  double samples_ = 1;
  Nanos waited_ = 0;
};

namespace {

class PushHook final : public ::torch::autograd::FunctionPostHook {
 public:
  explicit PushHook(std::function<void()> push) : push_(std::move(push)) {}
  ::torch::autograd::variable_list operator()(
      const ::torch::autograd::variable_list& outputs,
      const ::torch::autograd::variable_list& inputs) override {
    if (!inputs.empty() && inputs[0].defined()) push_();
    return outputs;
  }

 private:
  std::function<void()> push_;
};

}  // namespace

void KVStoreOptimizer::Impl::watch_gradients() {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    Entry& entry = entries_[i];
    entry.accumulator = torch_detail::grad_accumulator(entry.tensor);
    entry.hook =
        entry.accumulator->add_post_hook(std::make_unique<PushHook>([impl = weak_from_this(), i] {
          if (const auto self = impl.lock()) self->on_gradient(i);
        }));
  }
}

KVStoreOptimizer::KVStoreOptimizer(KVStore& store, const Parameters& parameters,
                                   const optim::Optimizer& optimizer,
                                   const KVStoreOptimizerOptions& options)
    : impl_(std::make_shared<Impl>(store, parameters, optimizer, options)) {
  impl_->watch_gradients();
}
KVStoreOptimizer::~KVStoreOptimizer() = default;

bool KVStoreOptimizer::set_sync(bool sync) { return impl_->set_sync(sync); }
void KVStoreOptimizer::set_samples(double n) { impl_->set_samples(n); }
void KVStoreOptimizer::set_lr(double lr) { impl_->set_lr(lr); }
void KVStoreOptimizer::step() { impl_->step(); }
void KVStoreOptimizer::wait() { impl_->wait(); }
void KVStoreOptimizer::wait_for(const at::Tensor& parameter) { impl_->wait_for(parameter); }
void KVStoreOptimizer::refresh() { impl_->refresh(); }
void KVStoreOptimizer::zero_grad() { impl_->zero_grad(); }
double KVStoreOptimizer::waited_us() const { return impl_->waited_us(); }

}  // namespace syncline
