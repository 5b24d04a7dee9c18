#include "tools/bench/pattern.h"

#include <gtest/gtest.h>

namespace syncline::tools {
namespace {

TEST(Pattern, SumIsWhatTheInputsAddUpTo) {
  constexpr int kRanks = 3;
  constexpr std::size_t kCount = 200;
  std::vector<float> sum(kCount), input(kCount);
  for (int rank = 0; rank < kRanks; ++rank) {
    Pattern::input(DType::kF32, ReduceOp::kSum, rank, kRanks).fill(input.data(), kCount);
    for (std::size_t i = 0; i < kCount; ++i) sum[i] += input[i];
  }
  EXPECT_EQ(Pattern::reduced(DType::kF32, ReduceOp::kSum, kRanks).count_wrong(sum.data(), kCount),
            0u);
  sum[7] += 1;
  sum[199] = -1;
  EXPECT_EQ(Pattern::reduced(DType::kF32, ReduceOp::kSum, kRanks).count_wrong(sum.data(), kCount),
            2u);
}

TEST(Pattern, AverageIsExact) {
  for (const int ranks : {2, 3, 5, 7}) {
    std::vector<double> sum(kPatternPeriod), input(kPatternPeriod);
    for (int rank = 0; rank < ranks; ++rank) {
      Pattern::input(DType::kF64, ReduceOp::kAverage, rank, ranks)
          .fill(input.data(), kPatternPeriod);
      for (std::size_t i = 0; i < kPatternPeriod; ++i) sum[i] += input[i];
    }
    for (double& value : sum) value /= ranks;
    EXPECT_EQ(Pattern::reduced(DType::kF64, ReduceOp::kAverage, ranks)
                  .count_wrong(sum.data(), kPatternPeriod),
              0u);
  }
}

TEST(Pattern, AShiftedBlockIsSeen) {
  const Pattern pattern = Pattern::input(DType::kI32, ReduceOp::kMax, 0, 2);
  std::vector<std::int32_t> data(1000);
  pattern.fill(data.data(), data.size(), 64);
  EXPECT_EQ(pattern.count_wrong(data.data(), data.size(), 64), 0u);
  EXPECT_GT(pattern.count_wrong(data.data(), data.size()), 900u);
}

TEST(Pattern, EveryTypeHasItsWidth) {
  for (int type = 0; type < kDTypeCount; ++type) {
    for (int op = 0; op < kReduceOpCount; ++op) {
      const Pattern pattern =
          Pattern::reduced(static_cast<DType>(type), static_cast<ReduceOp>(op), 4);
      std::vector<std::byte> data(size_of(static_cast<DType>(type)) * 100);
      pattern.fill(data.data(), 100);
      EXPECT_EQ(pattern.count_wrong(data.data(), 100), 0u);
    }
  }
}

}  // namespace
}  // namespace syncline::tools
