#include "tools/train/lr_schedule.h"

#include "gtest/gtest.h"

namespace syncline::tools {
namespace {

TEST(LrSchedule, RisesToThePeakAndFallsToNearlyNothing) {
  const LrSchedule schedule(0.5, 100, 0.2, "cosine");
  EXPECT_DOUBLE_EQ(schedule.at(0), 0.5 / 25);
  EXPECT_DOUBLE_EQ(schedule.at(19), 0.5);
  EXPECT_DOUBLE_EQ(schedule.at(20), 0.5);
  EXPECT_NEAR(schedule.at(99), 0.5e-4, 1e-12);
  for (int step = 1; step < 20; ++step) EXPECT_GT(schedule.at(step), schedule.at(step - 1));
  for (int step = 21; step < 100; ++step) EXPECT_LT(schedule.at(step), schedule.at(step - 1));
}

TEST(LrSchedule, IsHalfWayDownInTheMiddleOfTheCosine) {
  const LrSchedule schedule(1.0, 101, 0.0, "cosine");
  EXPECT_NEAR(schedule.at(50), 0.5 + 0.5e-4, 1e-9);
}

TEST(LrSchedule, KnowsStraightLinesAndConstants) {
  const LrSchedule linear(1.0, 11, 0.0, "linear");
  EXPECT_NEAR(linear.at(5), 0.5 + 0.5e-4, 1e-9);
  const LrSchedule constant(0.3, 10, 0.0, "constant");
  EXPECT_DOUBLE_EQ(constant.at(0), 0.3);
  EXPECT_DOUBLE_EQ(constant.at(9), 0.3);
}

TEST(LrSchedule, StaysFiniteAtTheEdges) {
  for (const int steps : {0, 1, 2}) {
    for (const double warmup : {0.0, 0.5, 1.0}) {
      const LrSchedule schedule(1.0, steps, warmup, "cosine");
      for (int step = 0; step < 5; ++step) {
        EXPECT_GE(schedule.at(step), 0.0);
        EXPECT_LE(schedule.at(step), 1.0);
      }
    }
  }
}

}  // namespace
}  // namespace syncline::tools
