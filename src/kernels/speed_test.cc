// Prints the speed of the hot kernels; fails only when one is slower by a factor that means a
// broken build (no vectors, no hardware CRC), so that a busy machine does not fail it.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "kernels/crc32c.h"
#include "kernels/reduce.h"

namespace syncline::kernels {
namespace {

// Best of several rounds, in ns per call.
template <class Call>
double best_ns(int calls, const Call& call) {
  double best = 1e18;
  for (int round = 0; round < 15; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call();
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
    best = std::min(best, spent.count() / calls);
  }
  return best;
}

double reduce_ns(DType type, ReduceOp op, std::size_t count, int calls) {
  std::vector<unsigned char> dst(count * size_of(type));
  std::vector<unsigned char> other(count * size_of(type));
  return best_ns(calls, [&] {
    reduce(type, op, {dst.data(), false}, {dst.data(), false}, {other.data(), false}, count);
  });
}

TEST(Speed, HotKernels) {
  std::printf("instruction set %s; GB/s of one operand, in place\n", target_name());
  for (const std::size_t count : {1, 7, 16, 256, 1024, 4096, 16384, 65536}) {
    const double ns = reduce_ns(DType::kF32, ReduceOp::kSum, count, 2000);
    std::printf("  f32 sum %6zu elements: %9.1f ns %6.1f GB/s\n", count, ns,
                static_cast<double>(count) * 4 / ns);
  }
  const DType types[] = {DType::kF64, DType::kF16, DType::kBF16, DType::kI8, DType::kI32};
  for (const DType type : types) {
    const std::size_t count = 65536 / size_of(type);
    const double ns = reduce_ns(type, ReduceOp::kSum, count, 300);
    std::printf("  %s sum 64 KiB: %.1f ns %.1f GB/s\n", to_string(type), ns, 65536 / ns);
  }
  std::printf("  f32 max 64 KiB: %.1f GB/s\n",
              65536 / reduce_ns(DType::kF32, ReduceOp::kMax, 16384, 500));
  const double sum_gbps = 65536 / reduce_ns(DType::kF32, ReduceOp::kSum, 16384, 500);
  EXPECT_GT(sum_gbps, 0.5);
}

TEST(Speed, Crc32c) {
  const std::vector<unsigned char> data(1 << 20, 0x5a);
  for (const std::size_t bytes : {64, 1024, 16384, 65536, 1 << 20}) {
    volatile std::uint32_t sink = 0;
    const double ns = best_ns(200, [&] { sink = crc32c(data.data(), bytes); });
    std::printf("  crc32c %7zu bytes: %9.1f ns %5.1f GB/s\n", bytes, ns,
                static_cast<double>(bytes) / ns);
    if (bytes == 65536) {
      EXPECT_LT(ns, 65536 / 0.2);
    }
  }
}

}  // namespace
}  // namespace syncline::kernels
