#include "exec/work_state.h"

#include <algorithm>
#include <utility>

#include "exec/engine.h"
#include "syncline/work.h"

namespace syncline {

void WorkState::on_complete(Callback fn) {
  {
    MutexLock lock(mutex_);
    // With a callback before this one, complete() has yet to come or is about to take the lock.
    if (callback_ != nullptr) return more_callbacks_.push_back(std::move(fn));
    callback_ = std::move(fn);
    State running = State::kRunning;
    if (state_.compare_exchange_strong(running, State::kWatched)) return;
    fn = std::exchange(callback_, nullptr);
  }
  fn(status_);
}

void WorkState::complete(Status status, Completions& completions) {
  status_ = std::move(status);
  if (state_.exchange(State::kDone, std::memory_order_acq_rel) != State::kWatched) return;
  MutexLock lock(mutex_);
  completions.push_back({std::exchange(callback_, nullptr), status_});
  for (Callback& fn : more_callbacks_) completions.push_back({std::move(fn), status_});
  more_callbacks_.clear();
}

void WorkState::complete(Status status) {
  Completions completions;
  complete(std::move(status), completions);
  for (const Completion& completion : completions) completion();
}

namespace {

Status not_started() {
  return Status(Code::kFailedPrecondition,
                "this call is part of a batch that was not started; call start() on it first");
}

}  // namespace

void Work::wait() {
  if (!state_) return;
  if (!state_->done()) {
    if (state_->held()) throw_if_error(not_started());
    state_->engine().wait(*state_);
  }
  throw_if_error(state_->status());
}

Status Work::wait_for(std::chrono::nanoseconds limit) {
  if (!state_ || state_->done()) return status();
  if (state_->held()) return not_started();
  const Nanos span = std::clamp<Nanos>(limit.count(), 0, 365 * 24 * 3600 * kSecond);
  return state_->engine().wait_until(*state_, monotonic_now() + span);
}

bool Work::done() const { return !state_ || state_->done(); }

Status Work::status() const { return state_ ? state_->status() : Status(); }

void Work::on_complete(std::function<void(const Status&)> fn) {
  if (!state_) return fn(Status());
  state_->on_complete(std::move(fn));
}

}  // namespace syncline
