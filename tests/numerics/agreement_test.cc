// Random floats: all ranks hold the same bits; canonical schedules evaluate the canonical tree.
#include <cmath>
#include <random>
#include <vector>

#include "base/half.h"
#include "plan/canonical.h"
#include "tests/numerics/every_reduction.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace syncline::numerics {
namespace {

Bytes random_floats(DType type, std::size_t count, int rank) {
  std::mt19937_64 random(static_cast<std::uint64_t>(rank) + 1);
  std::uniform_real_distribution<double> value(-2, 2);
  std::uniform_int_distribution<int> exponent(-6, 6);
  Bytes out;
  for (std::size_t i = 0; i < count; ++i) {
    const Bytes one = harness::element(type, std::ldexp(value(random), exponent(random)));
    out.insert(out.end(), one.begin(), one.end());
  }
  return out;
}

double combined(ReduceOp op, double a, double b, bool is_double) {
  const bool product = op == ReduceOp::kProduct;
  if (is_double) return product ? a * b : a + b;
  const auto x = static_cast<float>(a), y = static_cast<float>(b);
  return product ? x * y : x + y;
}

// The balanced tree over contributors [first, first + count), f32 accumulator (f64 for f64).
double canonical(ReduceOp op, const std::vector<double>& x, int first, int count, bool is_double) {
  if (count == 1) return x[static_cast<std::size_t>(first)];
  const int left = plan::canonical_split(count);
  return combined(op, canonical(op, x, first, left, is_double),
                  canonical(op, x, first + left, count - left, is_double), is_double);
}

Bytes canonical_result(DType type, ReduceOp op, int ranks, std::size_t count) {
  const bool is_double = type == DType::kF64;
  std::vector<Bytes> inputs;
  for (int r = 0; r < ranks; ++r) inputs.push_back(random_floats(type, count, r));
  Bytes out;
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<double> x;
    for (const Bytes& in : inputs) x.push_back(harness::value_of(type, &in[i * size_of(type)]));
    double value = canonical(op, x, 0, ranks, is_double);
    if (op == ReduceOp::kAverage) {
      value = is_double ? value / ranks : static_cast<float>(value) / static_cast<float>(ranks);
    }
    const Bytes one = harness::element(type, value);
    out.insert(out.end(), one.begin(), one.end());
  }
  return out;
}

class Agreement : public ::testing::TestWithParam<int> {};

TEST_P(Agreement, AllRanksHoldTheSameBits) {
  const int ranks = GetParam();
  const std::size_t count = 20011;
  for (const DType type : kFloats) {
    for (const auto& name : harness::schedules_for(Collective::kAllReduce, ranks)) {
      std::vector<Bytes> results(static_cast<std::size_t>(ranks));
      harness::run_ranks(ranks, [&](Session& session) {
        const Bytes in = random_floats(type, count, session.rank());
        results[static_cast<std::size_t>(session.rank())] = harness::all_reduce(
            session.world(), type, in, ReduceOp::kAverage, harness::with_schedule(name));
      });
      for (std::size_t r = 1; r < results.size(); ++r) {
        EXPECT_TRUE(results[r] == results[0])
            << to_string(type) << " by " << name << ": rank " << r << " differs from rank 0";
      }
    }
  }
}

TEST_P(Agreement, CanonicalSchedulesEvaluateTheCanonicalTree) {
  const int ranks = GetParam();
  const std::size_t count = 3001;
  for (const DType type : kFloats) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kProduct}) {
      const Bytes expected = canonical_result(type, op, ranks, count);
      harness::run_ranks(ranks, [&](Session& session) {
        const Bytes in = random_floats(type, count, session.rank());
        const auto names = harness::canonical_schedules(Collective::kAllReduce, ranks);
        EXPECT_GE(names.size(), 4u);
        for (const auto& name : names) {
          const Bytes out =
              harness::all_reduce(session.world(), type, in, op, harness::with_schedule(name));
          EXPECT_TRUE(out == expected)
              << to_string(type) << " " << to_string(op) << " by " << name << ", rank "
              << session.rank() << ": " << harness::value_of(type, out.data()) << " for "
              << harness::value_of(type, expected.data());
        }
        for (const auto& name : harness::canonical_schedules(Collective::kReduce, ranks)) {
          const Bytes out =
              harness::reduce(session.world(), type, in, 0, op, harness::with_schedule(name));
          EXPECT_TRUE(session.rank() != 0 || out == expected) << "reduce by " << name;
        }
        for (const auto& name : harness::canonical_schedules(Collective::kReduceScatter, ranks)) {
          const Bytes out =
              harness::reduce_scatter(session.world(), type, in, op, harness::with_schedule(name));
          EXPECT_TRUE(out == expected) << "reduce_scatter by " << name;
        }
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, Agreement, ::testing::Values(2, 3, 4, 5, 8, 11));

#if defined(__SSE2__)
TEST(FloatEnvironment, SubnormalsSurviveFlushToZero) {
  harness::run_ranks(2, [](Session& session) {
    const unsigned before = _mm_getcsr();
    const unsigned flushing = before | 0x8040;  // flush to zero, denormals are zero
    _mm_setcsr(flushing);
    for (const auto& name : harness::schedules_for(Collective::kAllReduce, 2)) {
      const auto bits = std::vector<std::uint32_t>(1025, 3);  // 3 * 2^-149
      const Bytes out = harness::all_reduce(session.world(), DType::kF32, harness::to_bytes(bits),
                                            ReduceOp::kSum, harness::with_schedule(name));
      EXPECT_EQ(harness::from_bytes<std::uint32_t>(out), std::vector<std::uint32_t>(1025, 6))
          << name;
      EXPECT_EQ(_mm_getcsr() & 0x8040, 0x8040u) << name << " changed the caller's MXCSR";
    }
    _mm_setcsr(before);
  });
}
#endif

}  // namespace
}  // namespace syncline::numerics
