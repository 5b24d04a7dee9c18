#include "exec/blocks.h"

#include <gtest/gtest.h>

#include "exec/layout.h"

namespace syncline::exec {
namespace {

Blocks make(Collective kind, std::uint32_t rank, std::vector<Blocks::Block> in,
            std::vector<Blocks::Block> out) {
  Blocks blocks;
  blocks.kind = kind;
  blocks.size = 3;
  blocks.rank = rank;
  blocks.in = std::move(in);
  blocks.out = std::move(out);
  blocks.segment_elements = 4;
  return blocks;
}

const std::vector<Blocks::Block> kRow = {{0, 5}, {5, 0}, {5, 9}};

TEST(Blocks, AllToAllCountsAtTheEndThatTheRankIs) {
  const Blocks blocks = make(Collective::kAllToAll, 1, kRow, {{0, 2}, {2, 0}, {2, 7}});
  EXPECT_EQ(blocks.count(1 * 3 + 0), 5u);  // to rank 0
  EXPECT_EQ(blocks.count(1 * 3 + 2), 9u);
  EXPECT_EQ(blocks.count(0 * 3 + 1), 2u);  // from rank 0
  EXPECT_EQ(blocks.count(2 * 3 + 1), 7u);
  EXPECT_EQ(blocks.in_block(1 * 3 + 2).begin, 5u);
  EXPECT_EQ(blocks.out_block(2 * 3 + 1).begin, 2u);
  EXPECT_EQ(blocks.longest(), 9u);
}

TEST(Blocks, OneTensorOrBothSayTheCounts) {
  const Blocks gatherer = make(Collective::kGather, 2, {{0, 9}}, kRow);
  const Blocks giver = make(Collective::kGather, 0, {{0, 5}}, {});
  const Blocks getter = make(Collective::kScatter, 0, {}, {{0, 5}});
  const Blocks scatterer = make(Collective::kScatter, 2, kRow, {{0, 9}});
  for (const Blocks* blocks : {&gatherer, &giver, &getter, &scatterer}) {
    EXPECT_EQ(blocks->count(0), 5u) << to_string(blocks->kind);
  }
  EXPECT_EQ(gatherer.count(1), 0u);
  EXPECT_EQ(scatterer.count(2), 9u);
}

TEST(Blocks, SegmentsCoverEachBlockOnce) {
  const Blocks blocks = make(Collective::kAllGather, 0, {{0, 5}}, kRow);
  const Layout layout(blocks);
  EXPECT_EQ(layout.segments(), 3u);  // of the longest block
  EXPECT_EQ(layout.segment_count_max(), 4u);
  for (std::uint32_t block = 0; block < 3; ++block) {
    std::size_t covered = 0;
    for (std::uint32_t segment = 0; segment < layout.segments(); ++segment) {
      const Extent extent = layout.extent(block, segment);
      if (layout.is_past(block, segment)) {
        EXPECT_EQ(extent.count, 0u);
        continue;
      }
      EXPECT_EQ(extent.begin, covered);
      covered += extent.count;
    }
    EXPECT_EQ(covered, kRow[block].count);
    EXPECT_FALSE(layout.is_past(block, 0)) << "an empty block is one empty message";
  }
}

}  // namespace
}  // namespace syncline::exec
