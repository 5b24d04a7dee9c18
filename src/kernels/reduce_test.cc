// Every type and operation against slow reference arithmetic, at awkward counts and addresses.
#include "kernels/reduce.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/reduce_reference_test.h"

namespace syncline::kernels {
namespace {

using Bytes = std::vector<unsigned char>;

// NaNs with payload and sign, infinities, both zeros, subnormals, extremes: as bits of each width.
void plant(DType type, Bytes& data, std::size_t offset, std::size_t count, std::mt19937& random) {
  static const std::vector<std::uint64_t> f32 = {0x7fc00001, 0xffc00000, 0x7f800001, 0x7f800000,
                                                 0xff800000, 0,          0x80000000, 1,
                                                 0x807fffff, 0x7f7fffff, 0x3f800000};
  static const std::vector<std::uint64_t> f64 = {0x7ff8000000000001,
                                                 0xfff8000000000000,
                                                 0x7ff0000000000000,
                                                 0xfff0000000000000,
                                                 0,
                                                 0x8000000000000000,
                                                 1,
                                                 0x800fffffffffffff,
                                                 0x7fefffffffffffff};
  static const std::vector<std::uint64_t> f16 = {0x7e01, 0xfe00, 0x7c01, 0x7c00, 0xfc00, 0,
                                                 0x8000, 1,      0x83ff, 0x7bff, 0x3c00};
  static const std::vector<std::uint64_t> bf16 = {0x7fc1, 0xffc0, 0x7f81, 0x7f80, 0xff80, 0,
                                                  0x8000, 1,      0x807f, 0x7f7f, 0x3f80};
  static const std::vector<std::uint64_t> integer = {
      0, 1, 0xffffffffffffffff, 0x7f, 0x80, 0x7fff, 0x8000, 0x7fffffff, 0x80000000};
  const auto& special = type == DType::kF32    ? f32
                        : type == DType::kF64  ? f64
                        : type == DType::kF16  ? f16
                        : type == DType::kBF16 ? bf16
                                               : integer;
  for (std::size_t i = 0; i < count; ++i) {
    if (random() % 3 != 0) continue;
    std::memcpy(&data[offset + i * size_of(type)], &special[random() % special.size()],
                size_of(type));
  }
}

Bytes make_input(DType type, std::size_t offset, std::size_t count, std::mt19937& random) {
  Bytes data(offset + count * size_of(type) + 1);
  for (auto& byte : data) byte = static_cast<unsigned char>(random());
  plant(type, data, offset, count, random);
  return data;
}

std::string bits(const unsigned char* data, std::size_t width) {
  std::uint64_t value = 0;
  std::memcpy(&value, data, width);
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

class EveryKernel : public testing::TestWithParam<std::tuple<int, int>> {
 protected:
  DType type() const { return static_cast<DType>(std::get<0>(GetParam())); }
  ReduceOp op() const { return static_cast<ReduceOp>(std::get<1>(GetParam())); }

  void compare(const unsigned char* got, const Bytes& a, const Bytes& b, std::size_t offset,
               std::size_t count, int divisor) {
    const std::size_t width = size_of(type());
    for (std::size_t i = 0; i < count; ++i) {
      unsigned char expected[8];
      const unsigned char* x = &a[offset + i * width];
      const unsigned char* y = &b[offset + i * width];
      reference::element(type(), op(), expected, x, y, divisor);
      if (std::memcmp(got + i * width, expected, width) == 0) continue;
      FAIL() << bits(got + i * width, width) << ", not " << bits(expected, width) << ": "
             << to_string(op()) << " of " << to_string(type()) << " " << bits(x, width) << " and "
             << bits(y, width) << ", element " << i << " of " << count << ", divisor " << divisor;
    }
  }
};

TEST_P(EveryKernel, EqualsReference) {
  std::mt19937 random(7);
  for (const std::size_t count : {0, 1, 7, 31, 32, 33, 1000, 65537}) {
    for (const std::size_t offset : {0, 1, 4}) {
      const Bytes a = make_input(type(), offset, count, random);
      const Bytes b = make_input(type(), offset, count, random);
      const int divisor = op() == ReduceOp::kAverage ? 3 : 0;
      Bytes dst(a.size(), 0xee);
      reduce(type(), op(), {&dst[offset], false}, {&a[offset], false}, {&b[offset], false}, count,
             divisor);
      compare(&dst[offset], a, b, offset, count, divisor);
      ASSERT_EQ(dst.back(), 0xee) << "wrote past the end";
    }
  }
}

TEST_P(EveryKernel, InPlaceOnEitherSide) {
  std::mt19937 random(8);
  for (const std::size_t count : {5, 3001}) {
    const Bytes a = make_input(type(), 1, count, random);
    const Bytes b = make_input(type(), 1, count, random);
    const int divisor = op() == ReduceOp::kAverage ? 7 : 0;
    Bytes left = a;
    reduce(type(), op(), {&left[1], false}, {&left[1], false}, {&b[1], false}, count, divisor);
    compare(&left[1], a, b, 1, count, divisor);
    Bytes right = b;
    reduce(type(), op(), {&right[1], false}, {&a[1], false}, {&right[1], false}, count, divisor);
    compare(&right[1], a, b, 1, count, divisor);
  }
}

TEST_P(EveryKernel, CommutesBitForBit) {
  std::mt19937 random(9);
  const Bytes a = make_input(type(), 0, 5000, random);
  const Bytes b = make_input(type(), 0, 5000, random);
  Bytes one(a.size());
  Bytes two(a.size());
  reduce(type(), op(), {one.data(), false}, {a.data(), false}, {b.data(), false}, 5000);
  reduce(type(), op(), {two.data(), false}, {b.data(), false}, {a.data(), false}, 5000);
  EXPECT_EQ(one, two);
}

std::string kernel_name(const testing::TestParamInfo<std::tuple<int, int>>& info) {
  return std::string(to_string(static_cast<DType>(std::get<0>(info.param)))) + "_" +
         to_string(static_cast<ReduceOp>(std::get<1>(info.param)));
}

std::vector<std::tuple<int, int>> supported_kernels() {
  std::vector<std::tuple<int, int>> kernels;
  for (int type = 0; type < kDTypeCount; ++type) {
    for (int op = 0; op < kReduceOpCount; ++op) {
      if (is_supported(static_cast<DType>(type), static_cast<ReduceOp>(op))) {
        kernels.emplace_back(type, op);
      }
    }
  }
  return kernels;
}

INSTANTIATE_TEST_SUITE_P(Kernels, EveryKernel, testing::ValuesIn(supported_kernels()), kernel_name);

TEST(IsSupported, RefusesWhatTheRulesRefuse) {
  EXPECT_FALSE(is_supported(DType::kBool, ReduceOp::kAverage));
  EXPECT_FALSE(is_supported(DType::kBF16, ReduceOp::kBitXor));
  EXPECT_EQ(supported_kernels().size(), kDTypeCount * kReduceOpCount - (1 + 4 * 3));
}

}  // namespace
}  // namespace syncline::kernels
