// Averages: NUM-01, NUM-11.
#include <vector>

#include "tests/numerics/every_reduction.h"

namespace syncline::numerics {
namespace {

TEST(Num01, IntegerAverageRoundsTowardZero) {
  const auto input = [](int r) {
    return harness::to_bytes(std::vector<std::int32_t>{r + 1, 10, -(r + 1)});
  };
  expect_every_reduction(4, DType::kI32, ReduceOp::kAverage, input,
                         harness::to_bytes(std::vector<std::int32_t>{2, 10, -2}));
}

TEST(Num01, EveryIntegerTypeRoundsTowardZero) {
  for (const DType type : {DType::kI8, DType::kI16, DType::kI32, DType::kI64}) {
    expect_every_reduction(
        3, type, ReduceOp::kAverage,
        [type](int r) {
          return harness::elements(type, {r == 0 ? 1. : 0., r == 0 ? -1. : 0., 2. - r, -7, r - 5.});
        },
        harness::elements(type, {0, 0, 1, -7, -4}));
  }
  expect_every_reduction(
      3, DType::kU8, ReduceOp::kAverage,
      [](int r) {
        return harness::elements(DType::kU8, {r + 1., r + 2., 80, r * 2.});
      },
      harness::elements(DType::kU8, {2, 3, 80, 2}));
}

TEST(Num01, DivisorIsTheRankCount) {
  for (const std::size_t count : {6, 1}) {
    expect_every_reduction(
        2, DType::kF32, ReduceOp::kAverage,
        [count](int r) { return harness::filled(DType::kF32, count, r == 0 ? 2 : 4); },
        harness::filled(DType::kF32, count, 3));
  }
}

TEST(Num01, AverageOfOneRankIsItself) {
  const Bytes mine = harness::elements(DType::kI32, {7, -7, 0});
  expect_every_reduction(
      1, DType::kI32, ReduceOp::kAverage, [&](int) { return mine; }, mine);
}

TEST(Num11, HalfAverageDoesNotOverflow) {
  expect_every_reduction(
      4, DType::kF16, ReduceOp::kAverage,
      [](int) { return harness::filled(DType::kF16, 1025, 30000); },
      harness::filled(DType::kF16, 1025, 30000));
}

TEST(Num11, HalfAverageKeepsSmallestSubnormal) {
  expect_every_reduction(
      4, DType::kF16, ReduceOp::kAverage,
      [](int) { return harness::filled(DType::kF16, 1025, 0x1p-24); },
      harness::filled(DType::kF16, 1025, 0x1p-24));
}

TEST(Num11, InfinityOfOneRankReachesAll) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (int holder = 0; holder < 4; ++holder) {
    expect_every_reduction(
        4, DType::kF16, ReduceOp::kAverage,
        [=](int r) { return harness::filled(DType::kF16, 9, r == holder ? infinity : 1); },
        harness::filled(DType::kF16, 9, infinity));
  }
}

}  // namespace
}  // namespace syncline::numerics
