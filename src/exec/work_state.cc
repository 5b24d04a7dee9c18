#include "exec/work_state.h"

#include <algorithm>
#include <utility>

#include "exec/engine.h"
#include "syncline/work.h"

namespace syncline {

void WorkState::on_complete(Callback fn) {
  {
    MutexLock lock(mutex_);
    if (!done()) {
      callbacks_.push_back(std::move(fn));
      return;
    }
  }
  fn(status_);
}

void WorkState::complete(Status status, std::vector<std::function<void()>>& callbacks) {
  MutexLock lock(mutex_);
  status_ = std::move(status);
  for (Callback& fn : callbacks_) {
    callbacks.push_back([fn = std::move(fn), outcome = status_] { fn(outcome); });
  }
  callbacks_.clear();
  done_.store(true, std::memory_order_release);
}

void Work::wait() {
  if (!state_) return;
  if (!state_->done()) state_->engine().wait(*state_);
  throw_if_error(state_->status());
}

Status Work::wait_for(std::chrono::nanoseconds limit) {
  if (!state_ || state_->done()) return status();
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
