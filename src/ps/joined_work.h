// JoinedWork: one Work for the many messages of a push or a pull.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "exec/work_state.h"

namespace syncline::ps {

// Thread-safe. Completes when as many parts have ended as were announced; with the first failure.
class JoinedWork {
 public:
  // `operation` names it in failures. `on_end` runs before the Work completes, on the thread that
  // ends the last part, with the outcome; it may change it.
  JoinedWork(std::shared_ptr<exec::Engine> engine, std::string operation, std::size_t parts)
      : whole_(std::make_shared<WorkState>(std::move(engine))),
        operation_(std::move(operation)),
        open_(parts) {}

  void set_on_end(std::function<void(Status&)> on_end) { on_end_ = std::move(on_end); }
  // Gets the failure of a Work whose handles are all dropped.
  void set_on_lost(std::function<void(const Status&)> on_lost) { on_lost_ = std::move(on_lost); }

  void end_part(const Status& status) {
    if (!status.ok()) {
      MutexLock lock(mutex_);
      if (failure_.ok()) failure_ = status.with_operation(operation_);
    }
    if (open_.fetch_sub(1) == 1) end();
  }
  // Where there is nothing to do.
  void end() {
    Status outcome;
    {
      MutexLock lock(mutex_);
      outcome = failure_;
    }
    if (on_end_ != nullptr) on_end_(outcome);
    if (!outcome.ok() && on_lost_ != nullptr && whole_.use_count() == 1) on_lost_(outcome);
    std::vector<std::function<void()>> callbacks;
    whole_->complete(std::move(outcome), callbacks);
    for (auto& callback : callbacks) callback();
  }

  const std::shared_ptr<WorkState>& work() const { return whole_; }

 private:
  std::shared_ptr<WorkState> whole_;
  const std::string operation_;
  std::atomic<std::size_t> open_;
  std::function<void(Status&)> on_end_;
  std::function<void(const Status&)> on_lost_;
  Mutex mutex_;
  Status failure_ SYNCLINE_GUARDED_BY(mutex_);
};

}  // namespace syncline::ps
