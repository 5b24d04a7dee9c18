#include "event/poller.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <string>
#include <utility>

#include "base/assert.h"
#include "syncline/status.h"

namespace syncline::event {
namespace {

constexpr int kEventsPerPass = 64;
constexpr std::uint64_t kDoorbellTag = ~std::uint64_t{0};

// The low half of the generation tells a descriptor from an earlier one with the same number.
std::uint64_t tag_of(int fd, std::uint64_t generation) {
  return generation << 32 | static_cast<std::uint32_t>(fd);
}

[[noreturn]] void throw_exhausted(const std::string& what, int error) {
  throw Error(Status(Code::kExhausted, what + ": " + std::strerror(error) +
                                           "; raise the limit of open files (ulimit -n)"));
}

int wait_once(int epoll, epoll_event* events, Nanos timeout) {
  if (timeout == 0) return ::epoll_wait(epoll, events, kEventsPerPass, 0);
  static std::atomic<bool> has_nanosecond_wait{true};  // Linux 5.11
  if (has_nanosecond_wait) {
    const timespec limit{timeout / kSecond, timeout % kSecond};
    const int ready = ::epoll_pwait2(epoll, events, kEventsPerPass, &limit, nullptr);
    if (ready >= 0 || errno != ENOSYS) return ready;
    has_nanosecond_wait = false;
  }
  const Nanos rounded = (timeout + kMillisecond - 1) / kMillisecond;
  return ::epoll_wait(epoll, events, kEventsPerPass,
                      static_cast<int>(rounded > 3600'000 ? 3600'000 : rounded));
}

}  // namespace

Poller::Poller() {
  epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  if (epoll_ < 0) throw_exhausted("event loop: epoll_create1 failed", errno);
  doorbell_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (doorbell_ < 0) {
    const int error = errno;
    ::close(epoll_);
    throw_exhausted("event loop: eventfd failed", error);
  }
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kDoorbellTag;
  SYNCLINE_ASSERT(::epoll_ctl(epoll_, EPOLL_CTL_ADD, doorbell_, &event) == 0,
                  "a fresh eventfd fits into a fresh epoll set");
}

Poller::~Poller() {
  ::close(doorbell_);
  ::close(epoll_);
}

void Poller::add(int fd, std::uint32_t events, Callback callback) {
  SYNCLINE_ASSERT(callback != nullptr, "a watched descriptor needs a callback");
  SYNCLINE_ASSERT(watched_.find(fd) == watched_.end(), "descriptor is watched already");
  const std::uint64_t generation = ++generation_;
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag_of(fd, generation);
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) {
    const int error = errno;
    SYNCLINE_ASSERT(error == ENOMEM || error == ENOSPC, "add() needs an open, pollable descriptor");
    throw_exhausted("event loop: cannot watch descriptor " + std::to_string(fd), error);
  }
  watched_.emplace(fd, Watched{std::move(callback), generation});
}

void Poller::modify(int fd, std::uint32_t events) {
  const auto it = watched_.find(fd);
  SYNCLINE_ASSERT(it != watched_.end(), "modify() of an unwatched descriptor");
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag_of(fd, it->second.generation);
  SYNCLINE_ASSERT(::epoll_ctl(epoll_, EPOLL_CTL_MOD, fd, &event) == 0,
                  "the descriptor stays open until remove()");
}

void Poller::remove(int fd) {
  SYNCLINE_ASSERT(watched_.erase(fd) == 1, "remove() of an unwatched descriptor");
  SYNCLINE_ASSERT(::epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr) == 0,
                  "the descriptor stays open until remove()");
}

int Poller::poll(Nanos timeout) {
  SYNCLINE_ASSERT(timeout >= 0, "every wait has a deadline");
  std::array<epoll_event, kEventsPerPass> events;
  const Nanos deadline = timeout > 0 ? monotonic_now() + timeout : 0;
  int ready = wait_once(epoll_, events.data(), timeout);
  while (ready < 0) {
    SYNCLINE_ASSERT(errno == EINTR, "epoll_wait of an own set");
    const Nanos rest = timeout > 0 ? deadline - monotonic_now() : 0;
    ready = wait_once(epoll_, events.data(), rest > 0 ? rest : 0);
  }
  for (int i = 0; i < ready; ++i) {
    if (events[i].data.u64 == kDoorbellTag) {
      std::uint64_t rings = 0;
      [[maybe_unused]] const ssize_t got = ::read(doorbell_, &rings, sizeof rings);
    } else {
      run_callback(events[i].data.u64, events[i].events);
    }
  }
  return ready;
}

// The callback is taken out while it runs: it may remove itself, or make the map rehash.
void Poller::run_callback(std::uint64_t tag, std::uint32_t events) {
  const int fd = static_cast<int>(tag & 0xffffffff);
  auto it = watched_.find(fd);
  if (it == watched_.end() || tag_of(fd, it->second.generation) != tag) return;
  const std::uint64_t generation = it->second.generation;
  Callback callback = std::move(it->second.callback);
  SYNCLINE_ASSERT(callback != nullptr, "poll() called from within a callback");
  callback(events);
  it = watched_.find(fd);
  if (it != watched_.end() && it->second.generation == generation) {
    it->second.callback = std::move(callback);
  }
}

void Poller::ring() {
  const int saved = errno;
  const std::uint64_t one = 1;
  // A full counter (EAGAIN) rings already.
  [[maybe_unused]] const ssize_t written = ::write(doorbell_, &one, sizeof one);
  errno = saved;
}

}  // namespace syncline::event
