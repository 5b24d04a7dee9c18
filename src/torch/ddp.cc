#include "syncline/torch/ddp.h"

#include <exception>

#include "torch/reducer.h"

namespace syncline {

DistributedDataParallelBase::DistributedDataParallelBase(NamedTensors parameters,
                                                         NamedTensors buffers,
                                                         const Communicator& world,
                                                         const DdpOptions& options)
    : reducer_(torch_detail::Reducer::create(parameters, buffers, world, options)) {}

DistributedDataParallelBase::~DistributedDataParallelBase() = default;

void DistributedDataParallelBase::before_forward(bool training) {
  reducer_->before_forward(training);
}

void DistributedDataParallelBase::watch(const at::Tensor& output) { reducer_->watch(output); }

SyncGuard DistributedDataParallelBase::sync_when(bool sync) { return {reducer_, sync}; }

JoinGuard DistributedDataParallelBase::join(JoinDivisor divisor) { return {reducer_, divisor}; }

void DistributedDataParallelBase::set_samples(std::int64_t n) { reducer_->set_samples(n); }

void DistributedDataParallelBase::register_comm_hook(CommHook hook) {
  reducer_->register_comm_hook(std::move(hook));
}

const StepStats& DistributedDataParallelBase::last_step() const { return reducer_->last_step(); }

Communicator& DistributedDataParallelBase::communicator() { return reducer_->communicator(); }

SyncGuard::SyncGuard(std::shared_ptr<torch_detail::Reducer> reducer, bool sync)
    : reducer_(std::move(reducer)), former_(reducer_->set_sync(sync)) {}

SyncGuard::~SyncGuard() {
  if (reducer_) reducer_->set_sync(former_);
}

JoinGuard::JoinGuard(std::shared_ptr<torch_detail::Reducer> reducer, JoinDivisor divisor)
    : reducer_(std::move(reducer)), exceptions_(std::uncaught_exceptions()) {
  reducer_->begin_join(divisor);
}

int JoinGuard::finish() {
  try {
    return reducer_->finish_join();
  } catch (...) {
    reducer_->cancel_join(nullptr);
    throw;
  }
}

JoinGuard::~JoinGuard() {
  if (!reducer_ || !reducer_->joining()) return;
  if (std::uncaught_exceptions() > exceptions_) {
    reducer_->cancel_join(nullptr);
    return;
  }
  try {
    finish();
  } catch (...) {
    reducer_->cancel_join(std::current_exception());
  }
}

}  // namespace syncline
