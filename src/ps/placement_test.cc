#include "ps/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "ps/norm_exchange.h"
#include "ps/request.h"
#include "tests/harness/resnet50.h"

namespace syncline::ps {
namespace {

double max_over_mean(const std::vector<std::size_t>& loads) {
  const double sum = std::accumulate(loads.begin(), loads.end(), 0.0);
  return static_cast<double>(*std::max_element(loads.begin(), loads.end())) *
         static_cast<double>(loads.size()) / sum;
}

TEST(Placement, SlicesCoverEachTensorOnceInOrder) {
  std::mt19937 random(1);
  Placement placement(3);
  for (int i = 0; i < 500; ++i) {
    const std::size_t count = random() % (random() % 2 == 0 ? 100 : 5'000'000);
    std::size_t next = 0;
    for (const PlacedSlice& slice : placement.add(count, 4)) {
      EXPECT_EQ(slice.begin, next);
      EXPECT_GT(slice.count, 0u);
      EXPECT_LE(slice.count * 4, Placement::kSliceBytes);
      EXPECT_TRUE(slice.server >= 0 && slice.server < 3);
      EXPECT_EQ(slice.begin % kNormPiece, 0u) << "norms are summed in whole pieces";
      next += slice.count;
    }
    EXPECT_EQ(next, count);
  }
}

// PS-11: every server within 5 % of the same bytes, with and without one huge key.
TEST(Placement, BalancesResNet50AndAHugeKey) {
  ASSERT_EQ(harness::resnet50_counts().size(), 161u);
  for (const int servers : {1, 2, 3, 4, 8}) {
    Placement placement(servers);
    for (const std::size_t count : harness::resnet50_counts()) placement.add(count, 4);
    EXPECT_LE(max_over_mean(placement.bytes_by_server()), 1.05) << servers << " servers";
    placement.add(100'000'000, 4);
    EXPECT_LE(max_over_mean(placement.bytes_by_server()), 1.01) << servers << " servers";
  }
}

// What a request describes, and a server takes, at any number of servers.
TEST(Placement, HugeTensorsHaveLongSlices) {
  for (const int servers : {1, 2, 7, 64}) {
    for (const std::size_t count : {std::size_t{50'000'000}, std::size_t{1'400'000'000}}) {
      KeyDescription key;
      key.name = std::string(kKeyNameMax, 'n');
      key.count = count;
      key.slices = Placement(servers, Placement::kNarrowSliceBytes).add(count, 4);
      EXPECT_LE(key.slices.size(), Placement::kSlicesMax);
      EXPECT_LE(encode(key).size(), kInlineMax);
      EXPECT_LE(key.slices.front().count, kSliceElementsMax);
    }
  }
}

TEST(Placement, BalancesSmallModels) {
  const std::vector<std::vector<std::size_t>> models = {
      {288, 32, 18432, 64, 1179648, 128, 1280, 10},
      {144, 16, 4608, 32, 100352, 64, 640, 10},
      {800, 32, 51200, 64, 31360, 10},
      {78400, 100, 1000, 10},
  };
  for (const auto& counts : models) {
    for (const int servers : {1, 2, 3, 4}) {
      Placement placement(servers);
      for (const std::size_t count : counts) {
        std::size_t next = 0;
        for (const PlacedSlice& slice : placement.add(count, 4)) {
          EXPECT_EQ(slice.begin, next);
          EXPECT_EQ(slice.begin % kNormPiece, 0u);
          next += slice.count;
          EXPECT_TRUE(slice.count >= kNormPiece || slice.count == count);
        }
        EXPECT_EQ(next, count);
      }
      EXPECT_LE(max_over_mean(placement.bytes_by_server()), 1.05)
          << counts.size() << " tensors, " << servers << " servers";
    }
  }
}

TEST(Placement, KeepsSmallTensorsWholeAndObeysAHand) {
  Placement placement(4);
  EXPECT_EQ(placement.add(100, 4), (std::vector<PlacedSlice>{{0, 100, 0}}));
  EXPECT_EQ(placement.add(100, 4), (std::vector<PlacedSlice>{{0, 100, 1}}));
  for (const PlacedSlice& slice : placement.add(1'000'000, 4, 3)) EXPECT_EQ(slice.server, 3);
  EXPECT_EQ(placement.add(100, 4), (std::vector<PlacedSlice>{{0, 100, 2}}));
  EXPECT_TRUE(placement.add(0, 4).empty());
}

}  // namespace
}  // namespace syncline::ps
