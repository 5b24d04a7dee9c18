// WorkState: what a Work handle shares with the engine.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "syncline/status.h"

namespace syncline {

namespace exec {
class Engine;
}

// Thread-safe. running -> done, once.
class WorkState {
 public:
  using Callback = std::function<void(const Status&)>;

  explicit WorkState(std::shared_ptr<exec::Engine> engine) : engine_(std::move(engine)) {}

  bool done() const { return done_.load(std::memory_order_acquire); }
  Status status() const { return done() ? status_ : Status(); }
  // Runs `fn` now if done, else at completion.
  void on_complete(Callback fn) SYNCLINE_EXCLUDES(mutex_);

  // Engine only: ends the work; appends its callbacks, which the engine runs without the baton.
  void complete(Status status, std::vector<std::function<void()>>& callbacks)
      SYNCLINE_EXCLUDES(mutex_);

  exec::Engine& engine() const { return *engine_; }

 private:
  std::atomic<bool> done_{false};
  Status status_;  // written before done_
  Mutex mutex_;
  std::vector<Callback> callbacks_ SYNCLINE_GUARDED_BY(mutex_);
  std::shared_ptr<exec::Engine> engine_;  // whom a waiting caller drives
};

}  // namespace syncline
