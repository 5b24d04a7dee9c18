// Work: handle of one asynchronous operation.
#ifndef SYNCLINE_WORK_H_
#define SYNCLINE_WORK_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>

#include "syncline/status.h"

namespace syncline {

class WorkState;  // opaque

// Thread-safe; copies share the operation. Dropping it neither blocks nor cancels: the buffers stay
// borrowed until the operation ends. Every started Work completes exactly once.
class Work {
 public:
  Work() = default;  // already complete, ok
  explicit Work(std::shared_ptr<WorkState> state) : state_(std::move(state)) {}

  // Blocks until complete; throws Error when the operation failed. The calling thread may move
  // bytes itself while it waits.
  void wait();
  // Blocks at most `limit`. kTimeout means "not complete yet": the operation goes on. Never throws.
  Status wait_for(std::chrono::nanoseconds limit);
  // True once complete; then status() is final.
  bool done() const;
  // Final outcome; ok while still running (ask done() first).
  Status status() const;
  // Runs `fn` exactly once: now if complete, else on the thread that completes it, never under a
  // lock. `fn` must not block.
  void on_complete(std::function<void(const Status&)> fn);

 private:
  std::shared_ptr<WorkState> state_;
};

// What a receive accepts beside a certain rank or tag.
inline constexpr int kAnySource = -1;
inline constexpr int kAnyTag = -1;

// What a receive got.
struct MessageInfo {
  int source = -1;  // rank within the communicator
  int tag = -1;
  std::size_t count = 0;  // elements; the rest of a longer tensor is untouched
};

// Work of one receive.
class ReceiveWork : public Work {
 public:
  ReceiveWork() = default;
  ReceiveWork(std::shared_ptr<WorkState> state, std::shared_ptr<const MessageInfo> info)
      : Work(std::move(state)), info_(std::move(info)) {}

  // Of a completed receive; {-1, -1, 0} before and after a failure.
  MessageInfo message() const {
    return info_ != nullptr && done() && status().ok() ? *info_ : MessageInfo();
  }

 private:
  std::shared_ptr<const MessageInfo> info_;
};

}  // namespace syncline

#endif  // SYNCLINE_WORK_H_
