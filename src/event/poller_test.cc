#include "event/poller.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <atomic>
#include <vector>

#include "event/thread.h"

namespace syncline::event {
namespace {

struct Pipe {
  Pipe() { EXPECT_EQ(::pipe(ends), 0); }
  ~Pipe() { close(); }
  void close() {
    if (ends[0] >= 0) ::close(ends[0]);
    if (ends[1] >= 0) ::close(ends[1]);
    ends[0] = ends[1] = -1;
  }
  void fill() { EXPECT_EQ(::write(ends[1], "x", 1), 1); }
  int in() const { return ends[0]; }
  int ends[2] = {-1, -1};
};

TEST(Poller, ReportsReadinessUntilRead) {
  Poller poller;
  Pipe pipe;
  int calls = 0;
  poller.add(pipe.in(), EPOLLIN, [&](std::uint32_t events) {
    EXPECT_TRUE(events & EPOLLIN);
    ++calls;
  });
  EXPECT_EQ(poller.size(), 1u);
  EXPECT_EQ(poller.poll(0), 0);
  pipe.fill();
  EXPECT_EQ(poller.poll(kSecond), 1);
  EXPECT_EQ(poller.poll(kSecond), 1);  // level-triggered
  EXPECT_EQ(calls, 2);
  poller.modify(pipe.in(), 0);
  EXPECT_EQ(poller.poll(0), 0);
  poller.remove(pipe.in());
  EXPECT_EQ(poller.size(), 0u);
}

TEST(Poller, CallbackRemovesItselfAndItsCaptureLivesOn) {
  Poller poller;
  Pipe pipe;
  pipe.fill();
  int after_removal = 0;
  poller.add(pipe.in(), EPOLLIN, [&, witness = std::vector<int>{1, 2, 3}](std::uint32_t) {
    poller.remove(pipe.in());
    after_removal = witness[2];
  });
  EXPECT_EQ(poller.poll(kSecond), 1);
  EXPECT_EQ(after_removal, 3);
  EXPECT_EQ(poller.poll(0), 0);
}

TEST(Poller, RemovedByAnotherCallbackInTheSamePassIsNotCalled) {
  Poller poller;
  Pipe first;
  Pipe second;
  first.fill();
  second.fill();
  int calls = 0;
  const auto remove_both = [&](std::uint32_t) {
    ++calls;
    poller.remove(first.in());
    poller.remove(second.in());
  };
  poller.add(first.in(), EPOLLIN, remove_both);
  poller.add(second.in(), EPOLLIN, remove_both);
  EXPECT_EQ(poller.poll(kSecond), 2);
  EXPECT_EQ(calls, 1);
}

TEST(Poller, DescriptorReusedWithinOnePassGetsNoStaleEvent) {
  Poller poller;
  Pipe first;
  Pipe second;
  Pipe* other = nullptr;
  first.fill();
  second.fill();
  int stale = 0;
  int calls = 0;
  Pipe fresh;
  const auto replace_other = [&](Pipe* mine) {
    return [&, mine](std::uint32_t) {
      ++calls;
      other = mine == &first ? &second : &first;
      poller.remove(other->in());
      EXPECT_EQ(::dup2(fresh.in(), other->in()), other->in());  // same number, an empty pipe
      poller.add(other->in(), EPOLLIN, [&](std::uint32_t) { ++stale; });
    };
  };
  poller.add(first.in(), EPOLLIN, replace_other(&first));
  poller.add(second.in(), EPOLLIN, replace_other(&second));
  EXPECT_EQ(poller.poll(kSecond), 2);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(stale, 0);
  fresh.fill();
  poller.remove(other == &first ? second.in() : first.in());
  EXPECT_EQ(poller.poll(kSecond), 1);
  EXPECT_EQ(stale, 1);
}

TEST(Poller, CallbackMayAddAndReplaceItself) {
  Poller poller;
  Pipe pipe;
  pipe.fill();
  int replaced = 0;
  std::vector<Pipe> more(100);
  poller.add(pipe.in(), EPOLLIN, [&](std::uint32_t) {
    for (Pipe& each : more) poller.add(each.in(), EPOLLIN, [](std::uint32_t) {});
    poller.remove(pipe.in());
    poller.add(pipe.in(), EPOLLIN, [&](std::uint32_t) { ++replaced; });
  });
  EXPECT_EQ(poller.poll(kSecond), 1);
  EXPECT_EQ(replaced, 0);
  EXPECT_EQ(poller.poll(kSecond), 1);
  EXPECT_EQ(replaced, 1);
  EXPECT_EQ(poller.size(), 101u);
}

TEST(Poller, RingsCoalesceAndWakeTheNextPoll) {
  Poller poller;
  for (int i = 0; i < 1000; ++i) poller.ring();
  EXPECT_EQ(poller.poll(kSecond), 1);
  EXPECT_EQ(poller.poll(0), 0);
  const std::uint64_t one = 1;
  EXPECT_EQ(::write(poller.doorbell_fd(), &one, sizeof one), 8);
  EXPECT_EQ(poller.poll(kSecond), 1);
  EXPECT_EQ(poller.poll(0), 0);
}

TEST(Poller, RingFromAnotherThreadEndsAWait) {
  Poller poller;
  const Nanos begin = monotonic_now();
  NamedThread ringer("ringer", [&] { poller.ring(); });
  EXPECT_EQ(poller.poll(60 * kSecond), 1);
  EXPECT_LT(monotonic_now() - begin, 30 * kSecond);
}

TEST(Poller, WaitsAsLongAsToldAndNotLonger) {
  Poller poller;
  const Nanos begin = monotonic_now();
  EXPECT_EQ(poller.poll(2 * kMillisecond + 1), 0);
  EXPECT_GE(monotonic_now() - begin, 2 * kMillisecond);
}

std::atomic<int> signals_seen{0};

TEST(Poller, RetriesAfterSignalsUntilTheDeadline) {
  struct sigaction action {};
  struct sigaction previous {};
  action.sa_handler = [](int) { signals_seen.fetch_add(1); };
  ASSERT_EQ(sigaction(SIGUSR2, &action, &previous), 0);
  Poller poller;
  Poller pause;
  const pthread_t target = pthread_self();
  const Nanos begin = monotonic_now();
  NamedThread sender("sender", [&] {
    while (monotonic_now() < begin + 15 * kMillisecond) {
      pthread_kill(target, SIGUSR2);
      pause.poll(kMillisecond);
    }
  });
  EXPECT_EQ(poller.poll(30 * kMillisecond), 0);
  EXPECT_GE(monotonic_now() - begin, 30 * kMillisecond);
  sender.join();
  EXPECT_GE(signals_seen.load(), 1);
  sigaction(SIGUSR2, &previous, nullptr);
}

TEST(PollerDeathTest, RefusesEndlessWaits) {
  Poller poller;
  EXPECT_DEATH(poller.poll(-1), "deadline");
}

}  // namespace
}  // namespace syncline::event
