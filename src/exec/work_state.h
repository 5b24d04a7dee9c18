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

// Thread-safe. running -> done or running -> watched -> done, once; watched: there are callbacks,
// so that a completion that nobody listens to takes no lock.
class WorkState {
 public:
  using Callback = std::function<void(const Status&)>;

  explicit WorkState(std::shared_ptr<exec::Engine> engine) : engine_(std::move(engine)) {}

  bool done() const { return state_.load(std::memory_order_acquire) == State::kDone; }
  Status status() const { return done() ? status_ : Status(); }
  // Runs `fn` now if done, else at completion.
  void on_complete(Callback fn) SYNCLINE_EXCLUDES(mutex_);

  // A callback that is to be run, and what it is told.
  struct Completion {
    Callback fn;
    Status outcome;
    void operator()() const { fn(outcome); }
  };
  using Completions = std::vector<Completion>;
  // Whoever does the work only: ends it. Its callbacks are appended, for whoever may not run them
  // here (the engine, with its baton).
  void complete(Status status, Completions& completions) SYNCLINE_EXCLUDES(mutex_);
  // The same, and runs the callbacks.
  void complete(Status status) SYNCLINE_EXCLUDES(mutex_);

  // Nobody may wait for it yet: its batch has not been started.
  bool held() const { return held_.load(std::memory_order_relaxed); }
  void set_held(bool held) { held_.store(held, std::memory_order_relaxed); }

  exec::Engine& engine() const { return *engine_; }

 private:
  enum class State : std::uint8_t { kRunning, kWatched, kDone };

  std::atomic<State> state_{State::kRunning};
  std::atomic<bool> held_{false};
  Status status_;  // written before kDone
  Mutex mutex_;
  Callback callback_ SYNCLINE_GUARDED_BY(mutex_);  // most works have one at most
  std::vector<Callback> more_callbacks_ SYNCLINE_GUARDED_BY(mutex_);
  std::shared_ptr<exec::Engine> engine_;  // whom a waiting caller drives
};

}  // namespace syncline
