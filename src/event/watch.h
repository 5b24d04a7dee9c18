// Watch: one descriptor registered with a poller, for as long as its owner wants.
#pragma once

#include <cstdint>
#include <utility>

#include "event/poller.h"

namespace syncline::event {

// Confined to its poller. What has no descriptor (-1: simulated connections) is never watched: its
// owner looks after it by itself.
class Watch {
 public:
  explicit Watch(Poller& poller) : poller_(poller) {}
  ~Watch() { stop(); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // `fd` stays open until stop().
  void start(int fd, std::uint32_t events, Poller::Callback callback) {
    stop();
    if (fd < 0) return;
    poller_.add(fd, events, std::move(callback));
    fd_ = fd;
  }
  void change(std::uint32_t events) {
    if (fd_ >= 0) poller_.modify(fd_, events);
  }
  void stop() {
    if (fd_ >= 0) poller_.remove(std::exchange(fd_, -1));
  }
  bool running() const { return fd_ >= 0; }

 private:
  Poller& poller_;
  int fd_ = -1;
};

}  // namespace syncline::event
