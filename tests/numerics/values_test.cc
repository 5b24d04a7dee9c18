// NaN, signed zeros, wrap-around, bool and 16-bit sums: NUM-09, NUM-10.
#include <cstring>
#include <limits>
#include <vector>

#include "tests/numerics/every_reduction.h"

namespace syncline::numerics {
namespace {

template <class T>
Bytes raw(T bits) {
  return harness::to_bytes(std::vector<T>{bits});
}

Bytes canonical_nan(DType type) {
  if (type == DType::kF64) return raw<std::uint64_t>(0x7ff8000000000000u);
  if (type == DType::kF32) return raw<std::uint32_t>(0x7fc00000u);
  return raw<std::uint16_t>(type == DType::kF16 ? 0x7e00 : 0x7fc0);
}

// Negative and with a payload.
Bytes odd_nan(DType type) {
  if (type == DType::kF64) return raw<std::uint64_t>(0xfff0000000000123u);
  if (type == DType::kF32) return raw<std::uint32_t>(0xff800123u);
  return raw<std::uint16_t>(type == DType::kF16 ? 0xfc12 : 0xff81);
}

TEST(NanRule, ReachesEveryRankWhicheverHoldsIt) {
  for (const DType type : kFloats) {
    for (const ReduceOp op :
         {ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kAverage}) {
      for (int holder = 0; holder < 3; ++holder) {
        const auto input = [=](int r) {
          return r == holder ? odd_nan(type) : harness::element(type, r - 1);
        };
        expect_every_reduction(3, type, op, input, canonical_nan(type));
      }
    }
  }
}

TEST(NanRule, InfinitiesOfBothSignsSumToCanonicalNan) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const DType type : kFloats) {
    expect_every_reduction(
        2, type, ReduceOp::kSum,
        [=](int r) { return harness::element(type, r == 0 ? infinity : -infinity); },
        canonical_nan(type));
  }
}

TEST(SignedZero, NegativeIsBelowPositive) {
  for (const DType type : kFloats) {
    for (int holder = 0; holder < 3; ++holder) {
      const auto input = [=](int r) { return harness::element(type, r == holder ? -0.0 : 0.0); };
      expect_every_reduction(3, type, ReduceOp::kMin, input, harness::element(type, -0.0));
      expect_every_reduction(3, type, ReduceOp::kMax, input, harness::element(type, 0.0));
      expect_every_reduction(3, type, ReduceOp::kSum, input, harness::element(type, 0.0));
    }
    const auto negative = [=](int) { return harness::element(type, -0.0); };
    expect_every_reduction(3, type, ReduceOp::kSum, negative, harness::element(type, -0.0));
    expect_every_reduction(3, type, ReduceOp::kAverage, negative, harness::element(type, -0.0));
  }
}

template <class T>
void expect_wrap(DType type) {
  const T top = std::numeric_limits<T>::max();
  const T bottom = std::numeric_limits<T>::min();
  const auto minus_one = static_cast<T>(-1);
  expect_every_reduction(
      2, type, ReduceOp::kSum,
      [=](int r) {
        return harness::to_bytes(std::vector<T>{r == 0 ? top : T{1}, r == 0 ? bottom : minus_one});
      },
      harness::to_bytes(std::vector<T>{bottom, top}));
  // top * top is 1 modulo 2^bits when signed: (2^(bits-1) - 1)^2; also for -1 * -1 unsigned.
  expect_every_reduction(
      2, type, ReduceOp::kProduct, [=](int) { return harness::to_bytes(std::vector<T>{top}); },
      harness::to_bytes(std::vector<T>{1}));
  // The average is the wrapped sum divided.
  expect_every_reduction(
      2, type, ReduceOp::kAverage, [=](int) { return harness::to_bytes(std::vector<T>{top}); },
      harness::to_bytes(
          std::vector<T>{static_cast<T>(static_cast<T>(static_cast<std::uint64_t>(top) * 2) / 2)}));
}

TEST(IntegerWrap, EveryType) {
  expect_wrap<std::int8_t>(DType::kI8);
  expect_wrap<std::uint8_t>(DType::kU8);
  expect_wrap<std::int16_t>(DType::kI16);
  expect_wrap<std::int32_t>(DType::kI32);
  expect_wrap<std::int64_t>(DType::kI64);
}

TEST(Num09, BoolIsLogical) {
  const auto input = [](int r) {
    return harness::elements(DType::kBool, {r == 1 ? 0. : 1., 0, 1});
  };
  const Bytes any = harness::elements(DType::kBool, {1, 0, 1});
  const Bytes all = harness::elements(DType::kBool, {0, 0, 1});
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kBitOr}) {
    expect_every_reduction(3, DType::kBool, op, input, any);
  }
  for (const ReduceOp op : {ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kBitAnd}) {
    expect_every_reduction(3, DType::kBool, op, input, all);
  }
}

TEST(Num09, StoredBytesAreZeroOrOne) {
  for (const int ranks : {2, 3}) {
    expect_every_reduction(
        ranks, DType::kBool, ReduceOp::kSum,
        [](int) {
          return Bytes{std::byte{0xff}, std::byte{2}, std::byte{0}};
        },
        harness::elements(DType::kBool, {1, 1, 0}));
  }
}

TEST(Num09, BoolBroadcasts) {
  harness::run_ranks(3, [](Session& session) {
    for (const auto& name : harness::schedules_for(Collective::kBroadcast, 3)) {
      Bytes data = harness::elements(DType::kBool, {session.rank() == 1 ? 1. : 0., 0, 1});
      session.world()
          .broadcast(harness::view(data, DType::kBool), 1, harness::with_schedule(name))
          .wait();
      EXPECT_EQ(data, harness::elements(DType::kBool, {1, 0, 1})) << name;
    }
  });
}

TEST(Num10, HalfSumsRoundOnce) {
  expect_every_reduction(
      5, DType::kBF16, ReduceOp::kSum,
      [](int r) { return harness::filled(DType::kBF16, 1025, r == 0 ? 256 : 1); },
      harness::filled(DType::kBF16, 1025, 260));
  expect_every_reduction(
      5, DType::kF16, ReduceOp::kSum,
      [](int r) { return harness::filled(DType::kF16, 1025, r == 0 ? 2048 : 1); },
      harness::filled(DType::kF16, 1025, 2052));
}

}  // namespace
}  // namespace syncline::numerics
