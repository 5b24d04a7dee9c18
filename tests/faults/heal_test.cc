// Links through a proxy that damages, repeats, delays, holds and cuts: every sum stays right.
// SYNCLINE_TEST_FLIPS: how many bits to flip [2000].
#include <fcntl.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/env.h"
#include "event/thread.h"
#include "tests/harness/healing_pair.h"

namespace syncline::faults {
namespace {

using namespace std::chrono_literals;
using harness::HealingPair;

constexpr std::size_t kHealCount = 1 << 20;   // 4 MiB
constexpr std::size_t kSmallCount = 1 << 16;  // enough for a connection to be in use

struct Loop {
  int rounds = 0;
  int wrong = 0;
  std::string failure;
};

// Reduces until `more` says no, which rank 0 decides for both in element 0.
template <class More>
void reduce_while(Session& session, std::size_t count, More more, Loop& loop) {
  std::vector<float> data(count);
  std::vector<float> expected(count);
  for (bool go_on = true; go_on; ++loop.rounds) {
    const auto value = [&](std::size_t i, int rank) {
      return static_cast<float>((i + static_cast<std::size_t>(loop.rounds)) % 1009 *
                                static_cast<std::size_t>(rank + 1));
    };
    for (std::size_t i = 0; i < count; ++i) data[i] = value(i, session.rank());
    for (std::size_t i = 0; i < count; ++i) expected[i] = value(i, 0) + value(i, 1);
    data[0] = session.rank() == 0 && !more() ? 1.0f : 0.0f;
    Work work = session.world().all_reduce({data.data(), count});
    const Status status = work.wait_for(60s);
    if (!status.ok()) {
      loop.failure = status.to_string();
      return;
    }
    go_on = data[0] == 0.0f;
    expected[0] = data[0];
    if (std::memcmp(data.data(), expected.data(), sizeof(float) * count) != 0) ++loop.wrong;
  }
}

template <class More>
void expect_right_sums(HealingPair& pair, More more, std::size_t count = kHealCount) {
  Loop loops[2];
  {
    event::NamedThread other("rank 1", [&] {
      reduce_while(
          pair.session(1), count, [] { return true; }, loops[1]);
    });
    reduce_while(pair.session(0), count, more, loops[0]);
    other.join();
  }
  for (const Loop& loop : loops) {
    EXPECT_EQ(loop.wrong, 0);
    EXPECT_EQ(loop.failure, "");
  }
  std::printf("%d all_reduces of %zu KiB, %llu connections\n", loops[0].rounds, count / 256,
              static_cast<unsigned long long>(pair.proxy().connections()));
}

auto until(std::chrono::steady_clock::time_point end) {
  return [end] { return std::chrono::steady_clock::now() < end; };
}

TEST(Heal, FlippedBitsAreAllCaught) {
  HealingPair pair;
  const auto text = env("SYNCLINE_TEST_FLIPS");
  const std::uint64_t wanted = text ? std::stoull(*text) : 2000;
  pair.proxy().flip_every = 600'000;  // at most one a frame
  expect_right_sums(pair, [&] { return pair.proxy().flips() < wanted; });
  pair.proxy().flip_every = 0;
  const std::uint64_t caught = pair.link(0).stats().damaged + pair.link(1).stats().damaged;
  std::printf("%llu bits flipped, %llu damaged frames refused, %llu bytes sent again\n",
              static_cast<unsigned long long>(pair.proxy().flips()),
              static_cast<unsigned long long>(caught),
              static_cast<unsigned long long>(pair.link(0).bytes_repeated() +
                                              pair.link(1).bytes_repeated()));
  EXPECT_GE(pair.proxy().flips(), wanted);
  // What a flipped header cuts off is never looked at.
  EXPECT_GE(caught, pair.proxy().flips() * 98 / 100);
}

TEST(Heal, FramesThatComeTwiceOrLateCountOnce) {
  HealingPair pair;
  pair.proxy().repeat_every = 3;
  expect_right_sums(pair, until(std::chrono::steady_clock::now() + 3s));
  EXPECT_GT(pair.proxy().repeats(), 20u);
  EXPECT_GE(pair.link(0).stats().duplicates, pair.proxy().repeats() * 9 / 10);
}

TEST(Heal, CutsAndDelays) {
  HealingPair pair;
  std::atomic<bool> stop{false};
  event::NamedThread cutter("cutter", [&] {
    for (int i = 0; !stop; ++i) {
      std::this_thread::sleep_for(20ms);
      pair.proxy().delay_us = i % 3 == 0 ? 2000 : 0;
      pair.proxy().cut();
    }
  });
  expect_right_sums(pair, until(std::chrono::steady_clock::now() + 4s));
  stop = true;
  cutter.join();
  EXPECT_GT(pair.proxy().connections(), 50u);
}

// A half-open path, as of a firewall that forgot the connection: everything is accepted, nothing
// passes.
TEST(Heal, HalfOpenPathGoesOnWhenItReturns) {
  HealingPair pair;
  std::atomic<bool> stop{false};
  event::NamedThread holder("holder", [&] {
    while (!stop) {
      std::this_thread::sleep_for(300ms);
      pair.proxy().hold = true;
      std::this_thread::sleep_for(700ms);
      pair.proxy().hold = false;
    }
  });
  expect_right_sums(pair, until(std::chrono::steady_clock::now() + 4s));
  stop = true;
  holder.join();
}

// R28: a thousand reconnects leave nothing behind.
TEST(Heal, AThousandReconnectsLeaveNothingBehind) {
  HealingPair pair;
  const auto resources = [] {
    std::size_t descriptors = 0;
    for (int fd = 0; fd < 1024; ++fd) descriptors += ::fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
    const struct mallinfo2 heap = ::mallinfo2();  // what is in use, whatever the pages are like
    int threads = 0;
    for ([[maybe_unused]] const auto& entry :
         std::filesystem::directory_iterator("/proc/self/task")) {
      ++threads;
    }
    return std::tuple(descriptors, threads, (heap.uordblks + heap.hblkhd) / 1024);
  };
  const auto reconnect = [&](std::uint64_t more) {
    const std::uint64_t wanted = pair.proxy().connections() + more;
    std::uint64_t seen = 0;
    const auto more_wanted = [&] {
      if (pair.proxy().connections() != seen) pair.proxy().cut();
      seen = pair.proxy().connections();
      return pair.proxy().connections() < wanted;
    };
    expect_right_sums(pair, more_wanted, kSmallCount);
  };
  // A connection that was cut last may not be closed yet, or its successor not be there yet.
  const auto settled = [&] {
    auto now = resources();
    for (int same = 0; same < 20;) {
      std::this_thread::sleep_for(10ms);
      const auto then = std::exchange(now, resources());
      same = std::get<0>(then) == std::get<0>(now) ? same + 1 : 0;
    }
    return now;
  };
  reconnect(300);  // everything that is made once has been made, buffers have their largest size
  const auto [descriptors, threads, heap] = settled();
  reconnect(1000);
  const auto [descriptors_then, threads_then, heap_then] = settled();
  std::printf(
      "before and after 1000 reconnects: descriptors %zu, %zu; threads %d, %d; heap %zu "
      "KiB, %zu KiB\n",
      descriptors, descriptors_then, threads, threads_then, heap, heap_then);
  EXPECT_EQ(descriptors_then, descriptors);
  EXPECT_EQ(threads_then, threads);
  EXPECT_LE(heap_then, heap + heap / 100 + 64);
}

}  // namespace
}  // namespace syncline::faults
