#include "transport/store_choice.h"

#include <gtest/gtest.h>

#include <vector>

namespace syncline::transport {
namespace {

constexpr std::size_t kLap = 1 << 20;
constexpr std::size_t kPayload = 64 << 10;
using ReadCosts = std::array<std::uint32_t, kStoresCount>;

// Ticks of a 64 KiB payload that cost `per_unit` ticks per 4 KiB.
constexpr std::uint64_t ticks(std::uint64_t per_unit) { return per_unit * 16; }

// Writes `laps` laps; returns how many of the bytes were streamed.
double streamed_share(StoreChoice& choice, int laps, const ReadCosts& write,
                      const ReadCosts& read) {
  std::size_t streamed = 0, all = 0;
  while (all < kLap * static_cast<std::size_t>(laps)) {
    const Stores stores = choice.current();
    if (stores == Stores::kStreaming) streamed += kPayload;
    all += kPayload;
    choice.wrote(kPayload, ticks(write[static_cast<std::size_t>(stores)]), read);
  }
  return static_cast<double>(streamed) / static_cast<double>(all);
}

TEST(StoreChoice, StaysWithTheCachesWhileTheyAreCheaper) {
  StoreChoice choice(kLap);
  const double share = streamed_share(choice, 1000, {500, 600}, {500, 900});
  EXPECT_GT(share, 0.01) << "it never tried";
  EXPECT_LT(share, 0.04);
}

TEST(StoreChoice, StreamsOnceReadingTheOtherCoresCacheIsDear) {
  StoreChoice choice(kLap);
  EXPECT_EQ(streamed_share(choice, 60, {500, 600}, {3000, 900}), 0) << "starts with the caches";
  streamed_share(choice, 10, {500, 600}, {3000, 900});
  EXPECT_GT(streamed_share(choice, 1000, {500, 600}, {3000, 900}), 0.96);
}

TEST(StoreChoice, FollowsWhenTheCoresMove) {
  StoreChoice choice(kLap);
  streamed_share(choice, 200, {500, 600}, {3000, 900});
  EXPECT_EQ(choice.current(), Stores::kStreaming);
  streamed_share(choice, 200, {500, 600}, {400, 900});
  EXPECT_LT(streamed_share(choice, 1000, {500, 600}, {400, 900}), 0.04);
}

TEST(StoreChoice, EqualsDoNotTakeTurns) {
  StoreChoice choice(kLap);
  streamed_share(choice, 70, {500, 600}, {3000, 900});
  EXPECT_GT(streamed_share(choice, 1000, {500, 500}, {970, 1000}), 0.96);
}

TEST(StoreChoice, DecidesNothingBeforeTheConsumerHasSpoken) {
  StoreChoice choice(kLap);
  EXPECT_LT(streamed_share(choice, 1000, {5000, 10}, {0, 0}), 0.04);
}

TEST(StoreChoice, TimesNothingInTheFirstLapAfterAChange) {
  StoreChoice choice(kLap);
  EXPECT_FALSE(choice.timed());
  streamed_share(choice, 1, {1, 1}, {1, 1});
  EXPECT_TRUE(choice.timed());
  while (choice.current() == Stores::kCached) choice.wrote(kPayload, ticks(1), {1, 1});
  EXPECT_FALSE(choice.timed());
}

TEST(SmoothedCost, AnInterruptionCountsForLittle) {
  SmoothedCost cost;
  EXPECT_EQ(cost.value(), 0u);
  for (int i = 0; i < 50; ++i) cost.note(ticks(400), kPayload);
  EXPECT_EQ(cost.value(), 400u);
  cost.note(ticks(1000000), kPayload);
  EXPECT_EQ(cost.value(), 450u);
  for (int i = 0; i < 50; ++i) cost.note(ticks(1600), kPayload);
  EXPECT_NEAR(cost.value(), 1600, 20);
  cost.note(0, kPayload);
  EXPECT_GT(cost.value(), 0u);
}

}  // namespace
}  // namespace syncline::transport
