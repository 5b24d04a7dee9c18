// Engine: who moves the bytes when, and who sleeps how.
#include <poll.h>
#include <sched.h>

#include <algorithm>

#include "base/asymmetric_fence.h"
#include "exec/engine.h"

namespace syncline::exec {
namespace {

constexpr int kSpinPasses = 256;                // a few microseconds; not when crowded
constexpr Nanos kYieldSpan = 2 * kMillisecond;  // then sleep
// Where all peers are on other hosts, each look costs system calls, and what is on the wire takes
// longer than to wake up.
constexpr int kSpinPassesFar = 4;
constexpr Nanos kTickInterval = kMillisecond;
constexpr Nanos kNapShort = kMillisecond;       // while operations come and go
constexpr Nanos kNapLong = 100 * kMillisecond;  // heartbeats need no more
// A caller that has called so often while the progress thread slept moves bytes by that: until it
// stops, this thread need not be woken for each frame.
constexpr std::uint64_t kBurst = 4;
constexpr Nanos kNapInBurst = 50 * kMicrosecond;
constexpr Nanos kBusyMemory = 50 * kMillisecond;

void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

Status Engine::wait(WorkState& work, Again again) { return wait_until(work, kNever, again); }

Status Engine::wait_until(WorkState& work, Nanos deadline, Again again) {
  while (!work.done()) {
    if (try_take()) {
      drive(work, deadline);
      const bool others = !operations_.empty() || !messages_.idle();
      give();
      if (others && (again == Again::kUnknown || napping_long_.load(std::memory_order_relaxed))) {
        kick();
      }
    } else {
      const std::uint32_t ticket = changed_.prepare();
      if (work.done() || !baton_.load(std::memory_order_seq_cst)) {
        changed_.cancel();
      } else {
        changed_.wait(ticket, kNapShort);
      }
    }
    if (deadline != kNever && !work.done() && monotonic_now() >= deadline) {
      return Status(Code::kTimeout, "not complete yet");
    }
  }
  return work.status();
}

// Entered and left with the baton.
void Engine::drive(WorkState& work, Nanos deadline) {
  int idle = 0;
  Nanos idle_since = 0;
  while (!work.done()) {
    if (pass()) {
      idle = 0;
      if (!completions_.empty()) return;  // one of them may complete `work`
      continue;
    }
    ++idle;
    if (idle < kSpinPasses && !crowded_ && !all_far_ && idle % 64 != 0) {
      cpu_relax();
      continue;
    }
    const Nanos now = monotonic_now();
    if (flight_ != nullptr) flight_->refresh();
    if (idle_since == 0 || idle <= 64) idle_since = now;
    if (now - last_tick_ >= kTickInterval) {
      poller_.poll(0);
      tick(now);
    }
    if (now >= deadline) return;
    back_off(idle, idle_since, now, deadline);
  }
}

void Engine::back_off(int idle, Nanos idle_since, Nanos now, Nanos deadline) {
  if (all_far_) {
    if (idle < kSpinPassesFar) return;
  } else {
    if (!crowded_ && idle < kSpinPasses) return;
    if (now - idle_since < kYieldSpan) {
      ::sched_yield();
      return;
    }
  }
  sleep_armed(std::clamp<Nanos>(deadline - now, kMillisecond, 10 * kMillisecond));
}

// Sleeps without the baton and takes it again.
void Engine::sleep_armed(Nanos timeout) {
  if (!arm()) return disarm();
  callers_asleep_.fetch_add(1, std::memory_order_relaxed);
  give();
  pollfd waits{poller_.fd(), POLLIN, 0};
  ::poll(&waits, 1, static_cast<int>((timeout + kMillisecond - 1) / kMillisecond));
  callers_asleep_.fetch_sub(1, std::memory_order_relaxed);
  while (!try_take()) {
    const std::uint32_t ticket = changed_.prepare();
    if (!baton_.load(std::memory_order_seq_cst)) {
      changed_.cancel();
    } else {
      changed_.wait(ticket, kNapShort);
    }
  }
  disarm();
  poller_.poll(0);
}

bool Engine::arm() {
  armed_ = true;
  bool fence = false;  // costs the same for one as for all
  for (const auto& channel : channels_) {
    channel->armed = transport::Armed::kNo;
    if (channel->lost || channel->endpoint->status().code() == Code::kShutdown) continue;
    // A frame of an operation that was not called here yet may wait; it is no reason to stay awake.
    if (channel->front(++pass_) != nullptr && find_waiting(*channel) == nullptr &&
        !messages_.awaits(*channel)) {
      continue;
    }
    channel->armed = channel->endpoint->arm();
    if (channel->armed == transport::Armed::kNo) return false;
    fence = fence || channel->armed == transport::Armed::kOnceFenced;
  }
  if (fence) heavy_fence();
  for (const auto& channel : channels_) {
    if (channel->armed == transport::Armed::kOnceFenced && !channel->endpoint->stays_armed()) {
      return false;
    }
  }
  return !has_pending_.load(std::memory_order_seq_cst);
}

void Engine::disarm() {
  if (!armed_) return;
  armed_ = false;
  for (const auto& channel : channels_) channel->endpoint->disarm();
}

void Engine::kick() { poller_.ring(); }

void Engine::progress_loop() {
  std::uint64_t submissions_seen = 0;
  Nanos busy_until = 0;
  while (!stopping_.load(std::memory_order_acquire)) {
    const bool driving = try_take();
    bool burst = false;
    if (driving) {
      disarm();
      poller_.poll(0);
      bool moved = false;
      while (pass()) moved = true;
      // Woken together with a caller, and faster than it: its sleep has missed what came.
      if (moved && callers_asleep_.load(std::memory_order_relaxed) > 0) kick();
      const Nanos now = monotonic_now();
      if (flight_ != nullptr) flight_->refresh();
      if (now - last_tick_ >= kTickInterval) tick(now);
      const bool idle = operations_.empty() && owed_aborts_.empty() && messages_.idle();
      burst = !idle && callers_asleep_.load(std::memory_order_relaxed) == 0 &&
              submissions_.load(std::memory_order_relaxed) - submissions_seen >= kBurst;
      const bool sleepable = idle || burst || arm();
      if (!sleepable) disarm();
      give();
      if (!sleepable) continue;
    }
    const Nanos now = monotonic_now();
    const std::uint64_t submissions = submissions_.load(std::memory_order_relaxed);
    if (submissions != submissions_seen) busy_until = now + kBusyMemory;
    submissions_seen = submissions;
    const bool busy = now < busy_until;
    napping_long_.store(!busy, std::memory_order_relaxed);
    const Nanos nap = busy ? kNapShort : kNapLong;
    if (!driving) {
      ::poll(nullptr, 0, 1);  // a caller drives; readiness is its business
    } else if (callers_asleep_.load(std::memory_order_relaxed) > 0) {
      changed_.wait(changed_.prepare(), nap);
    } else {
      pollfd waits{poller_.fd(), POLLIN, 0};
      const Nanos span = burst ? kNapInBurst : nap;
      const timespec limit{span / kSecond, span % kSecond};
      ::ppoll(&waits, 1, &limit, nullptr);
    }
  }
}

void Engine::stop(Nanos linger) {
  if (stopping_.exchange(true, std::memory_order_seq_cst)) return;
  kick();
  if (thread_.joinable()) thread_.join();
  if (options_.stepped_by != nullptr) linger = 0;
  while (!try_take()) changed_.wait(changed_.prepare(), kMillisecond);
  admit_pending();
  for (const auto& operation : operations_) {
    operation->fail(Status(Code::kShutdown, "the session left the job before it finished"));
  }
  while (!operations_.empty()) finish(operations_.size() - 1);
  messages_.end_all(Status(Code::kShutdown, "the session left the job before it finished"));
  for (const auto& [id, group] : groups_) {
    if (group->broken.ok()) group->broken = Status(Code::kShutdown, "the session has left the job");
  }
  for (const auto& channel : channels_) channel->endpoint->close();
  const Nanos until = monotonic_now() + linger;
  const auto unsent = [](const auto& channel) { return channel->endpoint->has_unsent(); };
  while (std::any_of(channels_.begin(), channels_.end(), unsent) && monotonic_now() < until) {
    poller_.poll(kMillisecond);
    for (const auto& channel : channels_) channel->endpoint->progress(monotonic_now());
  }
  // Communicators may outlive the session; their later calls are refused by name.
  for (const auto& [id, group] : groups_)
    std::fill(group->peers.begin(), group->peers.end(), nullptr);
  channels_.clear();
  groups_.clear();
  tickers_.clear();
  if (flight_ != nullptr) flight_->left();
  give();
}

}  // namespace syncline::exec
