#include "exec/work_state.h"

#include <algorithm>
#include <utility>

#include "exec/engine.h"
#include "syncline/work.h"

namespace syncline {

void WorkState::on_complete(Callback fn) {
  {
    MutexLock lock(mutex_);
    const bool first = callbacks_.empty();
    callbacks_.push_back(std::move(fn));
    // With a callback before this one, complete() has yet to come or is about to take the lock.
    State running = State::kRunning;
    if (!first || state_.compare_exchange_strong(running, State::kWatched)) return;
    fn = std::move(callbacks_.back());
    callbacks_.pop_back();
  }
  fn(status_);
}

void WorkState::complete(Status status, std::vector<std::function<void()>>& callbacks) {
  status_ = std::move(status);
  if (state_.exchange(State::kDone, std::memory_order_acq_rel) != State::kWatched) return;
  MutexLock lock(mutex_);
  for (Callback& fn : callbacks_) {
    callbacks.push_back([fn = std::move(fn), outcome = status_] { fn(outcome); });
  }
  callbacks_.clear();
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
