// Poller: the one place where a rank sleeps. A thin epoll set plus a doorbell.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>

#include "base/clock.h"

namespace syncline::event {

// Confined to the baton's holder, except ring() which is thread-safe and async-signal-safe.
class Poller {
 public:
  using Callback = std::function<void(std::uint32_t events)>;  // EPOLLIN | EPOLLOUT | ...

  // Throws Error (kExhausted) when descriptors run out; so does add().
  Poller();
  ~Poller();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  // The callback may add, change and remove descriptors, its own too. The caller keeps `fd` open
  // until remove(fd).
  void add(int fd, std::uint32_t events, Callback callback);
  void modify(int fd, std::uint32_t events);
  void remove(int fd);

  // Waits at most `timeout` (0 polls, negative is refused), runs the callbacks of what is ready,
  // clears the doorbell. Returns the number of ready descriptors, doorbell included. Retries EINTR.
  int poll(Nanos timeout);

  // Wakes the current or the next poll().
  void ring();
  // An eventfd that peers in other threads or processes may write 8 bytes to: same effect as
  // ring().
  int doorbell_fd() const { return doorbell_; }
  // The epoll descriptor: readable when poll(0) would find something. Any thread may sleep on it.
  int fd() const { return epoll_; }
  // Descriptors watched, the doorbell not counted.
  std::size_t size() const { return watched_.size(); }

 private:
  struct Watched {
    Callback callback;
    std::uint64_t generation;
  };
  void run_callback(std::uint64_t tag, std::uint32_t events);

  int epoll_ = -1;
  int doorbell_ = -1;
  std::uint64_t generation_ = 0;
  std::unordered_map<int, Watched> watched_;
};

}  // namespace syncline::event
