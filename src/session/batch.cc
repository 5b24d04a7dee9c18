#include "syncline/batch.h"

#include <atomic>

#include "session/batch_impl.h"

namespace syncline {
namespace {

// Lives until all calls of a batch have ended.
struct Joined {
  std::shared_ptr<WorkState> whole;
  std::atomic<std::size_t> open{0};
  Mutex mutex;
  Status first_failure SYNCLINE_GUARDED_BY(mutex);
};

void end_one(Joined& joined, const Status& status) {
  if (!status.ok()) {
    MutexLock lock(joined.mutex);
    if (joined.first_failure.ok()) joined.first_failure = status;
  }
  if (joined.open.fetch_sub(1) != 1) return;
  Status outcome;
  {
    MutexLock lock(joined.mutex);
    outcome = joined.first_failure;
  }
  joined.whole->complete(std::move(outcome));
}

}  // namespace

Batch::Batch() : impl_(std::make_shared<Impl>()) {}
Batch::~Batch() { impl_->cancel(); }

Communicator Batch::on(const Communicator& group) {
  auto parent = group.impl_;
  usable(parent);
  impl_->join(parent);
  return Communicator(std::make_shared<Communicator::Impl>(parent, impl_));
}

Work Batch::start() { return impl_->start(); }

void Batch::Impl::join(std::shared_ptr<Communicator::Impl> group) {
  const auto& engine = group->context()->engine;
  if (engine_ != nullptr && engine_ != engine) {
    throw Error(Status(Code::kInvalidArgument,
                       "a batch is for communicators of one session; make one batch for each")
                    .with_operation("batch"));
  }
  engine_ = engine;
  groups_.push_back(std::move(group));
}

std::shared_ptr<WorkState> Batch::Impl::record(exec::OperationRequest&& request) {
  exec::Engine::Call call;
  call.operation = std::move(request);
  return record(std::move(call));
}

std::shared_ptr<WorkState> Batch::Impl::record(exec::MessageRequest&& request) {
  exec::Engine::Call call;
  call.message = std::move(request);
  return record(std::move(call));
}

std::shared_ptr<WorkState> Batch::Impl::record(exec::Engine::Call&& call) {
  call.work = std::make_shared<WorkState>(engine_);
  hold(call.work);
  calls_.push_back(std::move(call));
  return calls_.back().work;
}

std::shared_ptr<WorkState> Batch::Impl::record(Begin begin) {
  auto work = std::make_shared<WorkState>(engine_);
  hold(work);
  later_.emplace_back(work, std::move(begin));
  return work;
}

void Batch::Impl::hold(const std::shared_ptr<WorkState>& work) {
  work->set_held(true);
  held_.push_back(work);
}

Work Batch::Impl::start() {
  if (calls_.empty() && later_.empty()) return Work();
  auto joined = std::make_shared<Joined>();
  joined->whole = std::make_shared<WorkState>(engine_);
  joined->open = calls_.size() + later_.size();
  for (const auto& work : held_) work->set_held(false);
  held_.clear();
  for (const exec::Engine::Call& call : calls_) {
    call.work->on_complete([joined](const Status& status) { end_one(*joined, status); });
  }
  for (const auto& [work, begin] : later_) {
    work->on_complete([joined](const Status& status) { end_one(*joined, status); });
  }
  auto calls = std::exchange(calls_, {});
  engine_->submit(calls);
  for (const auto& [work, begin] : std::exchange(later_, {})) begin(work);
  return Work(joined->whole);
}

void Batch::Impl::cancel() {
  for (const auto& work : held_) work->set_held(false);
  held_.clear();
  const Status dropped(Code::kCancelled, "its batch was dropped without start()");
  WorkState::Completions completions;
  for (const auto& call : std::exchange(calls_, {})) call.work->complete(dropped, completions);
  for (const auto& later : std::exchange(later_, {})) later.first->complete(dropped, completions);
  for (const auto& completion : completions) completion();
  groups_.clear();
}

}  // namespace syncline
