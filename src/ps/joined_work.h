// JoinedWork: one Work for the many messages of a push or a pull.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/mutex.h"
#include "exec/work_state.h"

namespace syncline::ps {

// For messages about failures; made a text only then.
struct OperationName {
  const char* what = "";  // stays
  std::string key = {};   // "": none
  std::optional<std::uint64_t> clock = {};

  std::string text() const {
    std::string text = what;
    if (!key.empty()) text += " '" + key + "'";
    if (clock.has_value()) text += " (clock " + std::to_string(*clock) + ")";
    return text;
  }
};

// Thread-safe. Completes when as many parts have ended as were announced; with the first failure.
class JoinedWork {
 public:
  // `on_end` runs before the Work completes, on the thread that
  // ends the last part, with the outcome; it may change it.
  JoinedWork(std::shared_ptr<exec::Engine> engine, OperationName operation, std::size_t parts)
      : whole_(std::make_shared<WorkState>(std::move(engine))),
        operation_(std::move(operation)),
        open_(parts) {}

  void set_on_end(std::function<void(Status&)> on_end) { on_end_ = std::move(on_end); }
  // Gets the failure of a Work whose handles are all dropped.
  void set_on_lost(std::function<void(const Status&)> on_lost) { on_lost_ = std::move(on_lost); }

  void end_part(const Status& status) {
    if (!status.ok()) {
      MutexLock lock(mutex_);
      if (failure_.ok()) failure_ = status.with_operation(operation_.text());
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
    whole_->complete(std::move(outcome));
  }

  const std::shared_ptr<WorkState>& work() const { return whole_; }

 private:
  std::shared_ptr<WorkState> whole_;
  const OperationName operation_;
  std::atomic<std::size_t> open_;
  std::function<void(Status&)> on_end_;
  std::function<void(const Status&)> on_lost_;
  Mutex mutex_;
  Status failure_ SYNCLINE_GUARDED_BY(mutex_);
};

}  // namespace syncline::ps
