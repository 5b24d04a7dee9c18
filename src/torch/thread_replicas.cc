#include "torch/thread_replicas.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <map>
#include <utility>

#include "torch/compat.h"
#include "torch/dense.h"

namespace syncline::torch_detail {
namespace {

void require_same(const NamedTensors& first, const NamedTensors& other, const char* kind) {
  bool same = first.size() == other.size();
  for (std::size_t i = 0; same && i < first.size(); ++i) {
    same =
        first[i].first == other[i].first && first[i].second.defined() == other[i].second.defined();
    if (same && first[i].second.defined()) {
      require_dense_cpu(first[i].second,
                        std::string("DataParallel: ") + kind + " '" + first[i].first + "'");
      same = first[i].second.sizes() == other[i].second.sizes() &&
             first[i].second.scalar_type() == other[i].second.scalar_type();
    }
  }
  if (!same) {
    throw Error(Status(Code::kInvalidArgument, std::string("DataParallel: the ") + kind +
                                                   "s of a replica differ from the module's; the "
                                                   "factory must build the same model"));
  }
}

}  // namespace

ThreadReplicas::ThreadReplicas(std::vector<ReplicaTensors> replicas)
    : replicas_(std::move(replicas)), errors_(replicas_.size()) {
  for (const ReplicaTensors& replica : replicas_) {
    require_same(replicas_[0].parameters, replica.parameters, "parameter");
    require_same(replicas_[0].buffers, replica.buffers, "buffer");
    for (std::size_t i = 0; i < replica.parameters.size(); ++i) {
      at::Tensor parameter = replica.parameters[i].second;
      const at::Tensor& first = replicas_[0].parameters[i].second;
      if (!parameter.defined() || parameter.is_same(first)) continue;
      parameter.set_data(first.data());
      parameter.set_requires_grad(first.requires_grad());
    }
  }
  sessions_ = init_threads(size());
  for (Session& session : sessions_) comms_.push_back(session.world());
  for (int r = 0; r < size(); ++r) {
    threads_.emplace_back("sync-replica" + std::to_string(r % 1000), [this, r] { serve(r); });
  }
}

ThreadReplicas::~ThreadReplicas() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  threads_.clear();
}

void ThreadReplicas::serve(int replica) {
  // Ends with the thread: all sessions leave at the same time.
  const Session session = std::move(sessions_[static_cast<std::size_t>(replica)]);
  for (std::uint64_t seen = 0;;) {
    std::function<void(int)> job;
    bool grad_mode = true;
    {
      std::unique_lock<std::mutex> lock(mutex_.native());
      changed_.wait(lock, [&] { return stop_ || round_ != seen; });
      if (stop_) return;
      seen = round_;
      if (replica >= count_) continue;
      job = job_;
      grad_mode = grad_mode_;
    }
    try {
      const c10::AutoGradMode mode(grad_mode);
      job(replica);
    } catch (...) {
      errors_[static_cast<std::size_t>(replica)] = std::current_exception();
    }
    {
      const MutexLock lock(mutex_);
      --running_;
    }
    changed_.notify_all();
  }
}

void ThreadReplicas::run(int count, const std::function<void(int)>& job) {
  errors_.assign(errors_.size(), nullptr);
  {
    const MutexLock lock(mutex_);
    ++round_;
    job_ = job;
    count_ = count;
    running_ = count;
    grad_mode_ = grad_enabled();
  }
  changed_.notify_all();
  {
    std::unique_lock<std::mutex> lock(mutex_.native());
    changed_.wait(lock, [this] { return running_ == 0; });
    job_ = nullptr;
  }
  for (const auto& error : errors_) {
    if (error) std::rethrow_exception(error);
  }
}

void ThreadReplicas::publish_buffers() {
  const NoGrad no_grad;
  for (std::size_t r = 1; r < replicas_.size(); ++r) {
    for (std::size_t i = 0; i < replicas_[r].buffers.size(); ++i) {
      const at::Tensor& buffer = replicas_[r].buffers[i].second;
      if (buffer.defined()) silent_alias(buffer).copy_(replicas_[0].buffers[i].second);
    }
  }
}

void ThreadReplicas::accumulate(int count, const std::function<void(int)>& compute) {
  // What the user has accumulated so far steps aside, so that only this batch travels.
  std::vector<at::Tensor> former;
  for (const auto& item : replicas_[0].parameters) {
    former.push_back(item.second.grad());
    item.second.mutable_grad().reset();
  }
  const auto give_back = [&] {
    for (std::size_t i = 0; i < former.size(); ++i) {
      at::Tensor& grad = replicas_[0].parameters[i].second.mutable_grad();
      if (former[i].defined() && grad.defined()) former[i].add_(grad);
      if (former[i].defined()) grad = former[i];
    }
    for (std::size_t r = 1; r < replicas_.size(); ++r) {
      for (const auto& item : replicas_[r].parameters) item.second.mutable_grad().reset();
    }
  };
  const NoGrad no_grad;
  try {
    {
      const c10::AutoGradMode grad_mode(true);
      run(count, compute);
    }
    sum_gradients();
  } catch (...) {
    for (const auto& item : replicas_[0].parameters) item.second.mutable_grad().reset();
    give_back();
    throw;
  }
  give_back();
}

// Parameters that got a gradient on some replica, one flat message for each type.
void ThreadReplicas::sum_gradients() {
  std::map<at::ScalarType, std::vector<std::size_t>> groups;
  const NamedTensors& first = replicas_[0].parameters;
  for (std::size_t i = 0; i < first.size(); ++i) {
    bool used = false;
    for (const auto& replica : replicas_) used |= replica.parameters[i].second.grad().defined();
    if (!used) continue;
    groups[first[i].second.scalar_type()].push_back(i);
    at::Tensor& grad = first[i].second.mutable_grad();
    if (!grad.defined()) grad = at::zeros_like(first[i].second);
  }
  for (const auto& group : groups) {
    run(size(), [&](int replica) { reduce_to_first(replica, group.second); });
  }
}

void ThreadReplicas::reduce_to_first(int replica, const std::vector<std::size_t>& group) {
  const NoGrad no_grad;
  const NamedTensors& parameters = replicas_[static_cast<std::size_t>(replica)].parameters;
  std::int64_t count = 0;
  for (const std::size_t i : group) count += parameters[i].second.numel();
  at::Tensor flat =
      at::zeros({count}, at::TensorOptions().dtype(parameters[group[0]].second.scalar_type()));
  const auto each = [&](const std::function<void(const at::Tensor&, at::Tensor)>& visit) {
    std::int64_t offset = 0;
    for (const std::size_t i : group) {
      const at::Tensor& p = parameters[i].second;
      visit(p.grad(), flat.narrow(0, offset, p.numel()).view(p.sizes()));
      offset += p.numel();
    }
  };
  each([](const at::Tensor& grad, at::Tensor slice) {
    if (grad.defined()) slice.copy_(grad);
  });
  CallOptions options;
  options.name = "data_parallel.gradients";
  comms_[static_cast<std::size_t>(replica)]
      .reduce(view_of(flat), 0, ReduceOp::kSum, options)
      .wait();
  if (replica != 0) return;
  each([](const at::Tensor& grad, const at::Tensor& slice) { grad.copy_(slice); });
}

}  // namespace syncline::torch_detail
