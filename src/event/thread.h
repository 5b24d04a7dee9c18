// NamedThread: the only place where a thread of Syncline starts.
#pragma once

#include <functional>
#include <string>
#include <thread>

namespace syncline::event {

// Externally synchronised. The thread runs with all signals blocked, so that handlers run on
// threads of the application only. Destruction joins and therefore blocks: first tell the body to
// end.
class NamedThread {
 public:
  NamedThread() = default;  // no thread
  // `name`: at most 15 characters, shown by ps and debuggers. `body` must not throw. Throws Error
  // (kExhausted) when the system has no room for a thread.
  NamedThread(const std::string& name, std::function<void()> body);
  ~NamedThread();
  NamedThread(NamedThread&&) noexcept = default;
  NamedThread& operator=(NamedThread&& other) noexcept;

  // Idempotent; not from the thread itself.
  void join();
  bool joinable() const { return thread_.joinable(); }
  std::thread::id id() const { return thread_.get_id(); }

 private:
  std::thread thread_;
};

}  // namespace syncline::event
