#include "ps/clock_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace syncline::ps {
namespace {

TEST(ClockTable, BulkWaitsForEveryone) {
  ClockTable table(3, 0);
  EXPECT_TRUE(table.admits(0));
  ASSERT_TRUE(table.advance(0, 1).ok());
  EXPECT_FALSE(table.admits(1));
  ASSERT_TRUE(table.advance(1, 1).ok());
  EXPECT_EQ(table.slowest(), 2);
  ASSERT_TRUE(table.advance(2, 1).ok());
  EXPECT_TRUE(table.admits(1));
  EXPECT_EQ(table.closed(), 1u);
}

TEST(ClockTable, ABoundLetsTheFastAheadByIt) {
  ClockTable table(2, 3);
  for (std::uint64_t clock = 0; clock <= 3; ++clock) EXPECT_TRUE(table.admits(clock));
  EXPECT_FALSE(table.admits(4));
  ASSERT_TRUE(table.advance(0, 9).ok());
  EXPECT_FALSE(table.admits(4));
  ASSERT_TRUE(table.advance(1, 1).ok());
  EXPECT_TRUE(table.admits(4));
  EXPECT_FALSE(table.admits(5));
}

TEST(ClockTable, AsynchronousNeverWaits) {
  ClockTable table(2, kUnbounded);
  EXPECT_TRUE(table.admits(UINT64_MAX));
}

TEST(ClockTable, RepeatsAndOldNewsChangeNothing) {
  ClockTable table(1, 0);
  ASSERT_TRUE(table.advance(0, 5).ok());
  ASSERT_TRUE(table.advance(0, 5).ok());
  ASSERT_TRUE(table.advance(0, 2).ok());
  EXPECT_EQ(table.clock_of(0), 5u);
  EXPECT_EQ(table.closed(), 5u);
}

TEST(ClockTable, WhoLeavesHoldsNobodyBack) {
  ClockTable table(2, 0);
  ASSERT_TRUE(table.advance(0, 4).ok());
  EXPECT_FALSE(table.admits(4));
  table.leave(1);
  EXPECT_TRUE(table.admits(4));
  EXPECT_FALSE(table.active(1));
  EXPECT_EQ(table.advance(1, 1).code(), Code::kFailedPrecondition);
  table.leave(0);
  EXPECT_EQ(table.closed(), 5u) << "the clock that it was in is closed as well";
  EXPECT_EQ(table.slowest(), -1);
}

TEST(ClockTable, RefusesWorkersThatThereAreNot) {
  ClockTable table(2, 0);
  EXPECT_EQ(table.advance(2, 1).code(), Code::kCorrupt);
  EXPECT_EQ(table.advance(-1, 1).code(), Code::kCorrupt);
}

// Workers that run, stand still and die as a seed has it. Whoever reads is never further than the
// bound from anybody active; and somebody can always go on.
TEST(ClockTable, KeepsTheBoundUnderEveryOrder) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const int workers = 1 + static_cast<int>(random() % 5);
    const std::uint64_t bound = random() % 4;
    ClockTable table(workers, bound);
    std::vector<std::uint64_t> clocks(static_cast<std::size_t>(workers));
    std::uint64_t closed = 0;
    for (int event = 0; event < 400; ++event) {
      const auto w = static_cast<std::size_t>(random() % static_cast<unsigned>(workers));
      const int worker = static_cast<int>(w);
      if (!table.active(worker)) continue;
      if (random() % 150 == 0) {
        table.leave(worker);
      } else if (table.admits(clocks[w])) {
        for (int other = 0; other < workers; ++other) {
          if (!table.active(other)) continue;
          ASSERT_LE(clocks[w], clocks[static_cast<std::size_t>(other)] + bound) << "seed " << seed;
        }
        ASSERT_TRUE(table.advance(worker, ++clocks[w]).ok());
      }
      ASSERT_GE(table.closed(), closed) << "a closed clock opened again";
      closed = table.closed();
      if (const int slowest = table.slowest(); slowest >= 0) {
        ASSERT_TRUE(table.admits(clocks[static_cast<std::size_t>(slowest)])) << "nobody can go on";
      }
    }
  }
}

}  // namespace
}  // namespace syncline::ps
