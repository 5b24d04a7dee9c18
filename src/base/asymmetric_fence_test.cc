#include "base/asymmetric_fence.h"

#include <gtest/gtest.h>

#include <thread>

namespace syncline {
namespace {

// Store buffering: without fences both sides may read 0, and on x86 soon do.
TEST(AsymmetricFence, OneSideSeesTheOther) {
  constexpr int kRounds = 20000;
  std::atomic<int> frequent{0}, rare{0}, gate{0};
  int frequent_saw = 0, rare_saw = 0;
  int neither = 0;
  // Both threads pass the gate of a round at the same time.
  const auto meet = [&](int at) {
    gate.fetch_add(1);
    while (gate.load() < at) std::this_thread::yield();
  };
  std::thread other([&] {
    for (int i = 0; i < kRounds; ++i) {
      meet(4 * i + 2);
      rare.store(1, std::memory_order_relaxed);
      heavy_fence();
      rare_saw = frequent.load(std::memory_order_relaxed);
      meet(4 * i + 4);
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    frequent.store(0);
    rare.store(0);
    meet(4 * i + 2);
    frequent.store(1, std::memory_order_relaxed);
    light_fence();
    frequent_saw = rare.load(std::memory_order_relaxed);
    meet(4 * i + 4);
    if (frequent_saw == 0 && rare_saw == 0) ++neither;
  }
  other.join();
  EXPECT_EQ(neither, 0);
}

}  // namespace
}  // namespace syncline
