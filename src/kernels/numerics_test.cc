// Numerical promises of syncline/types.h, named after the cases users met.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <vector>

#include "base/half.h"
#include "kernels/reduce.h"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace syncline::kernels {
namespace {

TEST(Numerics, NUM_01_IntegerAverageTruncatesTowardZero) {
  std::vector<std::int32_t> sum = {1, 10, -1};
  for (int rank = 1; rank < 4; ++rank) {
    const std::vector<std::int32_t> own = {rank + 1, 10, -(rank + 1)};
    reduce(DType::kI32, ReduceOp::kAverage, {sum.data(), false}, {sum.data(), false},
           {own.data(), false}, 3, rank == 3 ? 4 : 0);
  }
  EXPECT_EQ(sum, (std::vector<std::int32_t>{2, 10, -2}));
}

TEST(Numerics, NUM_09_ManyTruesStayTrue) {
  std::uint8_t sum[3] = {1, 0, 7};
  const std::uint8_t own[3] = {1, 0, 0};
  for (int i = 1; i < 256; ++i) {
    reduce(DType::kBool, ReduceOp::kSum, {sum, false}, {sum, false}, {own, false}, 3);
  }
  EXPECT_EQ(sum[0], 1);
  EXPECT_EQ(sum[1], 0);
  EXPECT_EQ(sum[2], 1);
  const std::uint8_t odd[4] = {0, 1, 2, 255};
  std::uint8_t copied[4];
  copy(DType::kBool, {copied, false}, {odd, false}, 4);
  EXPECT_EQ(std::vector<int>(copied, copied + 4), (std::vector<int>{0, 1, 1, 1}));
}

TEST(Numerics, NUM_10_SmallTermsSurviveInBf16) {
  const std::vector<std::uint16_t> large(1025, float_to_bf16(256));
  const std::vector<std::uint16_t> one(1025, float_to_bf16(1));
  std::vector<float> sum(1025);
  std::vector<std::uint16_t> result(1025);
  reduce(DType::kBF16, ReduceOp::kSum, {sum.data(), true}, {large.data(), false},
         {one.data(), false}, 1025);
  for (int rank = 2; rank < 4; ++rank) {
    reduce(DType::kBF16, ReduceOp::kSum, {sum.data(), true}, {one.data(), false},
           {sum.data(), true}, 1025);
  }
  reduce(DType::kBF16, ReduceOp::kSum, {result.data(), false}, {sum.data(), true},
         {one.data(), false}, 1025);
  for (const auto bits : result) ASSERT_EQ(bf16_to_float(bits), 260.0f);
}

TEST(Numerics, NUM_11_F16AverageNeitherOverflowsNorVanishes) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<std::uint16_t> own = {float_to_f16(30000), 0x0001, float_to_f16(inf)};
  std::vector<float> sum(3);
  std::vector<std::uint16_t> result(3);
  reduce(DType::kF16, ReduceOp::kAverage, {sum.data(), true}, {own.data(), false},
         {own.data(), false}, 3);
  reduce(DType::kF16, ReduceOp::kAverage, {sum.data(), true}, {sum.data(), true},
         {own.data(), false}, 3);
  reduce(DType::kF16, ReduceOp::kAverage, {result.data(), false}, {sum.data(), true},
         {own.data(), false}, 3, 4);
  EXPECT_EQ(f16_to_float(result[0]), 30000.0f);
  EXPECT_EQ(result[1], 0x0001);
  EXPECT_EQ(f16_to_float(result[2]), inf);
}

class HalfConversion : public testing::TestWithParam<DType> {
 protected:
  float widen(std::uint16_t bits) const {
    return GetParam() == DType::kF16 ? f16_to_float(bits) : bf16_to_float(bits);
  }
  std::uint16_t narrow(float value) const {
    return GetParam() == DType::kF16 ? float_to_f16(value) : float_to_bf16(value);
  }
};

TEST_P(HalfConversion, All65536ValuesRoundTrip) {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  std::vector<float> wide(all.size());
  std::vector<std::uint16_t> back(all.size());
  copy(GetParam(), {wide.data(), true}, {all.data(), false}, all.size());
  copy(GetParam(), {back.data(), false}, {wide.data(), true}, all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const float expected = widen(all[i]);
    const std::uint32_t expected_bits =
        std::isnan(expected) ? 0x7fc00000u : std::bit_cast<std::uint32_t>(expected);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(wide[i]), expected_bits) << i;
    ASSERT_EQ(back[i], std::isnan(expected) ? narrow(expected) : all[i]) << i;
  }
}

// Each of the three memories may hold elements or partial results.
TEST_P(HalfConversion, MixedWidthsGiveTheSameSum) {
  for (const std::size_t count : {1, 7, 8, 9, 31, 1025}) {
    std::vector<std::uint16_t> a(count);
    std::vector<std::uint16_t> b(count);
    std::vector<float> wide_a(count);
    std::vector<float> wide_b(count);
    for (std::size_t i = 0; i < count; ++i) {
      a[i] = static_cast<std::uint16_t>(i * 2477 + 5);
      b[i] = static_cast<std::uint16_t>(i * 40503 + 77);
      wide_a[i] = widen(a[i]);
      wide_b[i] = widen(b[i]);
    }
    for (int mix = 0; mix < 8; ++mix) {
      std::vector<float> wide(count + 1, 77);
      std::vector<std::uint16_t> half(count + 1, 77);
      const Target dst = mix & 1 ? Target{wide.data(), true} : Target{half.data(), false};
      const Operand x = mix & 2 ? Operand{wide_a.data(), true} : Operand{a.data(), false};
      const Operand y = mix & 4 ? Operand{wide_b.data(), true} : Operand{b.data(), false};
      reduce(GetParam(), ReduceOp::kSum, dst, x, y, count);
      for (std::size_t i = 0; i < count; ++i) {
        const float sum = wide_a[i] + wide_b[i];
        if (!dst.accumulator) {
          ASSERT_EQ(half[i], narrow(sum)) << "element " << i << ", mix " << mix;
        } else if (std::isnan(sum)) {
          ASSERT_EQ(std::bit_cast<std::uint32_t>(wide[i]), 0x7fc00000u);
        } else {
          ASSERT_EQ(wide[i], sum) << "element " << i << ", mix " << mix;
        }
      }
      ASSERT_EQ(half[count], 77);
      ASSERT_EQ(wide[count], 77);
    }
  }
}

// Every value half way between neighbours, and a step to either side of it, plus subnormal inputs.
TEST_P(HalfConversion, RoundsToNearestEven) {
  std::vector<float> wide;
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const float value = widen(static_cast<std::uint16_t>(i));
    const float next = widen(static_cast<std::uint16_t>(i + 1));
    const float middle = value + (next - value) / 2;
    wide.push_back(middle);
    wide.push_back(std::nextafterf(middle, 1e38f));
    wide.push_back(std::nextafterf(middle, -1e38f));
    wide.push_back(std::bit_cast<float>(i << 7));
    wide.push_back(std::bit_cast<float>(i * 65537u + 12345u));
  }
  std::vector<std::uint16_t> result(wide.size());
  copy(GetParam(), {result.data(), false}, {wide.data(), true}, wide.size());
  for (std::size_t i = 0; i < wide.size(); ++i) {
    ASSERT_EQ(result[i], narrow(wide[i])) << wide[i];
  }
}

TEST_P(HalfConversion, ScaleAndDividedCopyRoundOnce) {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  std::vector<std::uint16_t> scaled(all.size());
  std::vector<std::uint16_t> divided = all;
  scale(GetParam(), scaled.data(), all.data(), all.size(), 0.3);
  copy(GetParam(), {divided.data(), false}, {divided.data(), false}, all.size(), 3);
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(scaled[i], narrow(widen(all[i]) * 0.3f)) << i;
    ASSERT_EQ(divided[i], narrow(widen(all[i]) / 3.0f)) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, HalfConversion, testing::Values(DType::kF16, DType::kBF16),
                         [](const auto& type) { return std::string(to_string(type.param)); });

TEST(Scale, F32AndF64) {
  float single[3] = {3, 1e-40f, std::numeric_limits<float>::signaling_NaN()};
  double wide[1] = {3};
  scale(DType::kF32, single, single, 3, 0.1);
  scale(DType::kF64, wide, wide, 1, 0.1);
  EXPECT_EQ(single[0], 3 * 0.1f);
  EXPECT_EQ(single[1], 1e-40f * 0.1f);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(single[2]), 0x7fc00000u);
  EXPECT_EQ(wide[0], 3 * 0.1);
}

#if defined(__SSE__)
TEST(FloatEnvironment, SubnormalsSurviveFlushToZeroOfTheCaller) {
  const unsigned before = _mm_getcsr();
  const float tiny[2] = {std::numeric_limits<float>::denorm_min(), -1e-40f};
  const std::uint16_t half_tiny[2] = {0x0001, 0x8001};
  float sum[2];
  float least[2];
  std::uint16_t half_sum[2];
  // Flush to zero, denormals are zero, round toward minus infinity.
  const unsigned odd = before | 0x8040 | 0x2000;
  _mm_setcsr(odd);
  reduce(DType::kF32, ReduceOp::kSum, {sum, false}, {tiny, false}, {tiny, false}, 2);
  reduce(DType::kF32, ReduceOp::kMin, {least, false}, {tiny, false}, {sum, false}, 2);
  reduce(DType::kBF16, ReduceOp::kSum, {half_sum, false}, {half_tiny, false}, {half_tiny, false},
         2);
  const unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  EXPECT_EQ(after & 0xffc0, odd & 0xffc0) << "the caller's settings come back";
  EXPECT_EQ(std::bit_cast<std::uint32_t>(sum[0]), 2u);
  EXPECT_EQ(sum[1], -1e-40f * 2);
  EXPECT_EQ(least[0], tiny[0]);
  EXPECT_EQ(least[1], sum[1]);
  EXPECT_EQ(half_sum[0], 0x0002);
  EXPECT_EQ(half_sum[1], 0x8002);
}
#endif

TEST(Numerics, TargetHasAName) { EXPECT_STRNE(target_name(), ""); }

}  // namespace
}  // namespace syncline::kernels
