// ServerEvents: what engine callbacks tell a server's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "exec/engine.h"

namespace syncline::ps {

struct ServerEvent {
  enum class Kind : std::uint8_t { kRequest, kPayload, kReply, kNote, kRelayed } kind{};
  std::size_t worker = 0;  // of a note: the server that it is from
  std::uint64_t id = 0;    // slot, payload, reply or relay
  bool ok = false;
};

// Thread-safe: callbacks of the engine post, the server's thread takes.
class ServerEvents {
 public:
  explicit ServerEvents(std::shared_ptr<exec::Engine> engine) : engine_(std::move(engine)) {}

  void post(const ServerEvent& event) {
    std::shared_ptr<WorkState> wake;
    {
      MutexLock lock(mutex_);
      events_.push_back(event);
      wake = std::move(wake_);
    }
    if (wake != nullptr) wake->complete({});
  }

  std::deque<ServerEvent> take() {
    MutexLock lock(mutex_);
    return std::exchange(events_, {});
  }
  // Blocks, moving bytes, until there are some.
  void wait() {
    std::shared_ptr<WorkState> wake;
    {
      MutexLock lock(mutex_);
      if (!events_.empty()) return;
      wake = wake_ = std::make_shared<WorkState>(engine_);
    }
    (void)engine_->wait(*wake, exec::Engine::Again::kSoon);
  }

 private:
  std::shared_ptr<exec::Engine> engine_;
  Mutex mutex_;
  std::deque<ServerEvent> events_ SYNCLINE_GUARDED_BY(mutex_);
  std::shared_ptr<WorkState> wake_ SYNCLINE_GUARDED_BY(mutex_);  // set while wait() does
};

}  // namespace syncline::ps
