#include "tools/bench/bandwidth.h"

#include <gtest/gtest.h>

namespace syncline::tools {
namespace {

TEST(Bandwidth, FollowsNcclTestsFactors) {  // PERF-05
  const struct {
    const char* operation;
    double busbw;
  } expected[] = {{"all_reduce", 15},  {"all_gather", 7.5}, {"reduce_scatter", 7.5},
                  {"all_to_all", 7.5}, {"broadcast", 10},   {"reduce", 10}};
  for (const auto& [operation, busbw] : expected) {
    const Bandwidth speed = bandwidth(operation, 4, 1e9, 0.1);
    EXPECT_NEAR(speed.algbw_gbs, 10, 1e-9) << operation;
    EXPECT_NEAR(speed.busbw_gbs, busbw, 1e-9) << operation;
  }
}

TEST(Bandwidth, OfNothingIsZero) {
  EXPECT_EQ(bandwidth("all_reduce", 1, 1e9, 0.1).busbw_gbs, 0);
  EXPECT_EQ(bandwidth("barrier", 4, 0, 0.1).busbw_gbs, 0);
  EXPECT_EQ(bandwidth("all_reduce", 4, 1e9, 0).algbw_gbs, 0);
}

TEST(Percentile, TakesTheNearestRank) {
  std::vector<double> samples;
  for (int i = 100; i >= 1; --i) samples.push_back(i);
  EXPECT_EQ(percentile(samples, 0.5), 50);
  EXPECT_EQ(percentile(samples, 0.99), 99);
  EXPECT_EQ(percentile(samples, 0), 1);
  EXPECT_EQ(percentile(samples, 1), 100);
  EXPECT_EQ(percentile({7}, 0.99), 7);
  EXPECT_EQ(percentile({}, 0.5), 0);
}

}  // namespace
}  // namespace syncline::tools
