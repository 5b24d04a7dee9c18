#include "torch/reducer.h"

#include <ATen/core/TensorBody.h>

#include <cstdlib>
#include <unordered_set>
#include <utility>

#include "base/env.h"
#include "torch/dense.h"

namespace syncline::torch_detail {

// Lives in the queue of callbacks of one backward. Destroyed unfinished when that backward throws.
struct BackwardToken {
  std::weak_ptr<Reducer> reducer;
  bool finished = false;

  ~BackwardToken() {
    const auto alive = reducer.lock();
    if (alive && !finished) alive->on_backward_thrown();
  }
};

namespace {

class GradHook final : public ::torch::autograd::FunctionPostHook {
 public:
  GradHook(std::weak_ptr<Reducer> reducer, std::size_t parameter)
      : reducer_(std::move(reducer)), parameter_(parameter) {}
  ::torch::autograd::variable_list operator()(
      const ::torch::autograd::variable_list& outputs,
      const ::torch::autograd::variable_list& inputs) override {
    if (const auto reducer = reducer_.lock()) {
      reducer->on_gradient(parameter_, !inputs.empty() && inputs[0].defined());
    }
    return outputs;
  }

 private:
  std::weak_ptr<Reducer> reducer_;
  std::size_t parameter_;
};

// Shared weights appear under several names and count once.
NamedTensors distinct(const NamedTensors& tensors, const char* kind) {
  NamedTensors result;
  std::unordered_set<const void*> seen;
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.defined() || !seen.insert(tensor.unsafeGetTensorImpl()).second) continue;
    require_dense_cpu(tensor, std::string("DistributedDataParallel: ") + kind + " '" + name + "'");
    result.emplace_back(name, tensor);
  }
  return result;
}

void apply_environment(DdpOptions& options) {
  const auto text = env("SYNCLINE_BUCKET_CAP_MB");
  if (text) {
    char* end = nullptr;
    const double value = std::strtod(text->c_str(), &end);
    if (text->empty() || *end != '\0' || !(value > 0)) {
      throw Error(Status(Code::kInvalidArgument,
                         "SYNCLINE_BUCKET_CAP_MB='" + *text + "' is not a positive number of MiB"));
    }
    options.bucket_cap_mb(value);
  }
  if (!(options.bucket_cap_mb() > 0) || !(options.first_bucket_mb() > 0)) {
    throw Error(Status(Code::kInvalidArgument,
                       "DdpOptions: bucket_cap_mb and first_bucket_mb must be positive"));
  }
}

std::string settings_text(const DdpOptions& o) {
  return "bucket_cap_mb=" + std::to_string(o.bucket_cap_mb()) +
         " first_bucket_mb=" + std::to_string(o.first_bucket_mb()) +
         " broadcast_buffers=" + std::to_string(o.broadcast_buffers()) + " schedule='" +
         o.schedule() + "' name='" + o.name() + "'";
}

std::atomic<std::int64_t> next_id{0};

std::vector<at::Tensor> tensors_of(const NamedTensors& named, bool trainable_only) {
  std::vector<at::Tensor> result;
  for (const auto& item : named) {
    if (!trainable_only || item.second.requires_grad()) result.push_back(item.second);
  }
  return result;
}

}  // namespace

std::shared_ptr<Reducer> Reducer::create(const NamedTensors& parameters,
                                         const NamedTensors& buffers, const Communicator& world,
                                         DdpOptions options) {
  if (!world.valid()) {
    throw Error(
        Status(Code::kInvalidArgument, "DistributedDataParallel: the communicator is empty"));
  }
  apply_environment(options);
  const NamedTensors params = distinct(parameters, "parameter");
  const NamedTensors bufs = distinct(buffers, "buffer");
  // An own group: the order of exchanges stays fixed however two models' backwards interleave.
  Communicator comm = world.split(0, world.rank());
  const Agreement agreement = agree(comm, params, bufs, settings_text(options), next_id.load());
  for (auto id = next_id.load(); id <= agreement.id;) {
    if (next_id.compare_exchange_weak(id, agreement.id + 1)) break;
  }
  std::string name = options.name().empty() ? "ddp" + std::to_string(agreement.id) : options.name();
  std::shared_ptr<Reducer> reducer(
      new Reducer(comm, params, bufs, options, std::move(name), agreement.strides_equal));
  broadcast_values(reducer->comm_, reducer->values_, 0, reducer->call_options("init"));
  reducer->install_hooks();
  return reducer;
}

Reducer::Reducer(Communicator comm, const NamedTensors& parameters, const NamedTensors& buffers,
                 const DdpOptions& options, std::string name, bool keep_strides)
    : comm_(std::move(comm)),
      options_(options),
      name_(std::move(name)),
      buffers_(tensors_of(buffers, false)),
      values_(tensors_of(parameters, false)),
      buckets_(comm_, name_, tensors_of(parameters, true), options, keep_strides) {
  values_.insert(values_.end(), buffers_.begin(), buffers_.end());
  for (const auto& [parameter, tensor] : parameters) {
    if (tensor.requires_grad()) {
      parameters_.push_back({parameter, tensor, nullptr, 0});
    } else {
      frozen_.emplace_back(parameter, tensor);
    }
  }
  used_.assign(parameters_.size(), 0);
}

void Reducer::install_hooks() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Parameter& p = parameters_[i];
    p.accumulator = grad_accumulator(p.tensor);
    p.hook = p.accumulator->add_post_hook(std::make_unique<GradHook>(weak_from_this(), i));
  }
}

Reducer::~Reducer() {
  for (Parameter& p : parameters_) {
    if (p.accumulator) p.accumulator->del_post_hook(p.hook);
  }
}

CallOptions Reducer::call_options(const char* what) const {
  CallOptions options;
  options.name = name_ + "." + what;
  options.timeout = options_.timeout();
  return options;
}

bool Reducer::weighted() const {
  return samples_ >= 0 || (joining_ && divisor_ == JoinDivisor::kActiveRanks);
}

bool Reducer::set_sync(bool sync) { return std::exchange(sync_, sync); }

void Reducer::set_samples(std::int64_t n) {
  if (n < 0) {
    throw Error(Status(Code::kInvalidArgument, "set_samples(" + std::to_string(n) +
                                                   "): a number of samples is not negative"));
  }
  samples_ = n;
}

void Reducer::register_comm_hook(CommHook hook) {
  if (steps_ > 0 || step_open_) {
    throw Error(Status(Code::kFailedPrecondition,
                       "register_comm_hook: register hooks before the first forward"));
  }
  buckets_.push_hook(std::move(hook));
}

void Reducer::before_forward(bool training) {
  if (deferred_) std::rethrow_exception(std::exchange(deferred_, nullptr));
  for (const auto& [name, tensor] : frozen_) {
    if (tensor.requires_grad()) {
      throw Error(Status(Code::kFailedPrecondition,
                         "DistributedDataParallel: parameter '" + name +
                             "' was frozen when the model was wrapped and requires a gradient "
                             "now; unfreeze before wrapping, or wrap again"));
    }
  }
  if (training && grad_enabled() && !token_.lock()) open_step();
}

void Reducer::watch(const at::Tensor& output) {
  if (!output.defined() || !output.requires_grad() || output.is_leaf()) return;
  output.register_hook([weak = weak_from_this()](const at::TensorBase&) {
    if (const auto reducer = weak.lock()) reducer->on_backward();
  });
}

void Reducer::open_step() {
  if (step_open_) return;
  step_open_ = true;
  if (alone()) return;
  const bool with_buffers = buffers_due_ && options_.broadcast_buffers() && !buffers_.empty();
  if (joining_) send_join_header(true, with_buffers);
  if (with_buffers) broadcast_buffers();
  buffers_due_ = false;
}

void Reducer::broadcast_buffers() { broadcast_values(comm_, buffers_, 0, call_options("buffers")); }

void Reducer::on_backward() {
  if (token_.lock()) return;
  auto token = std::make_shared<BackwardToken>();
  token->reducer = weak_from_this();
  token_ = token;
  at_end_of_backward([token] {
    if (const auto reducer = token->reducer.lock()) reducer->on_backward_end();
    // Behind the callbacks of other models: each has sent all it has before any of them waits.
    at_end_of_backward([token] {
      token->finished = true;
      if (const auto reducer = token->reducer.lock()) reducer->on_exchange_end();
    });
  });
  backward_begun_ = monotonic_now();
  if (samples_ >= 0) samples_total_ += static_cast<double>(samples_);
  if (sync_ && !alone()) begin_exchange();
}

void Reducer::begin_exchange() {
  open_step();
  buckets_.begin({weighted(), samples_ >= 0 ? samples_total_ : 1.0});
  exchanging_ = true;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i].tensor.requires_grad()) buckets_.contribute(i, true);
  }
}

void Reducer::on_gradient(std::size_t parameter, bool defined) {
  on_backward();
  if (!defined) return;
  used_[parameter] = 1;
  if (!exchanging_) return;
  const Parameter& p = parameters_[parameter];
  if (buckets_.contributed(parameter)) {
    throw Error(Status(Code::kUnsupported,
                       "backward: the gradient of '" + p.name +
                           "' arrived twice in one backward (backward inside backward); wrap the "
                           "inner passes in no_sync()"));
  }
  if (p.tensor.grad().defined()) {
    require_dense_cpu(p.tensor.grad(), "backward: the gradient of '" + p.name + "'");
  }
  buckets_.contribute(parameter, false);
}

void Reducer::on_backward_end() {
  backward_ended_ = monotonic_now();
  if (!exchanging_) return;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!buckets_.contributed(i)) buckets_.contribute(i, true);
  }
  send_report(false);
}

void Reducer::send_report(bool failed) {
  report_sent_ = true;
  const double samples = samples_ >= 0 ? samples_total_ : 1.0;
  report_.launch(comm_, used_, {true, weighted(), failed ? 0 : samples, failed},
                 call_options("report"));
}

void Reducer::on_exchange_end() {
  token_.reset();
  if (!exchanging_) {
    if (sync_ && alone()) {
      stats_ = {};
      stats_.step = ++steps_;
      stats_.backward_us = static_cast<double>(backward_ended_ - backward_begun_) / kMicrosecond;
      reset_step();
    }
    return;
  }
  try {
    finish_exchange();
  } catch (...) {
    on_backward_thrown();
    throw;
  }
}

void Reducer::finish_exchange() {
  StepStats stats;
  const Nanos waiting = monotonic_now();
  if (joining_) header_work_.wait();
  buckets_.wait();
  report_.wait();
  const Nanos exchanged = monotonic_now();
  buckets_.commit(report_.used(), report_.samples());
  stats.step = ++steps_;
  stats.backward_us = static_cast<double>(backward_ended_ - backward_begun_) / kMicrosecond;
  stats.exposed_us = static_cast<double>(exchanged - waiting) / kMicrosecond;
  stats.commit_us = static_cast<double>(monotonic_now() - exchanged) / kMicrosecond;
  stats.buckets = buckets_.stats();
  stats_ = std::move(stats);
  reset_step();
}

void Reducer::reset_step() {
  step_open_ = false;
  exchanging_ = false;
  report_sent_ = false;
  buffers_due_ = true;
  samples_total_ = 0;
  used_.assign(used_.size(), 0);
}

void Reducer::on_backward_thrown() noexcept {
  token_.reset();
  try {
    if (exchanging_ && !report_sent_) {
      for (std::size_t i = 0; i < parameters_.size(); ++i) {
        if (!buckets_.contributed(i)) buckets_.contribute_zeros(i);
      }
      send_report(true);
    }
  } catch (...) {  // the group is dead: the others know
  }
  buckets_.abandon();
  if (exchanging_) reset_step();
}

}  // namespace syncline::torch_detail
