#include "plan/partition.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace syncline::plan {
namespace {

TEST(Partition, ThirteenElementsOverThirteenChunks) {
  for (int c = 0; c < 13; ++c) {
    EXPECT_EQ(chunk_range(Collective::kAllReduce, 13, 13, 13, c),
              (Range{static_cast<std::size_t>(c), 1}));
  }
}

TEST(Partition, ChunksTileTheVectorAndDifferByAtMostOne) {
  for (const std::size_t count : {0, 1, 7, 12, 13, 1000, 65537}) {
    for (const int chunks : {1, 2, 3, 5, 8, 33}) {
      std::size_t at = 0;
      for (int c = 0; c < chunks; ++c) {
        const Range r = chunk_range(Collective::kAllReduce, chunks, count, chunks, c);
        EXPECT_EQ(r.begin, at);
        EXPECT_GE(r.count, count / static_cast<std::size_t>(chunks));
        EXPECT_LE(r.count, count / static_cast<std::size_t>(chunks) + 1);
        at = r.end();
      }
      EXPECT_EQ(at, count);
    }
  }
}

TEST(Partition, BlocksAreEqualAndSubdivided) {
  // 3 ranks, blocks of 7, 2 chunks a block: 4 + 3.
  EXPECT_EQ(chunk_range(Collective::kAllGather, 3, 21, 6, 0), (Range{0, 4}));
  EXPECT_EQ(chunk_range(Collective::kAllGather, 3, 21, 6, 1), (Range{4, 3}));
  EXPECT_EQ(chunk_range(Collective::kReduceScatter, 3, 21, 6, 4), (Range{14, 4}));
  EXPECT_EQ(block_owner(Collective::kReduceScatter, 3, 6, 4), 2);
  EXPECT_EQ(block_owner(Collective::kAllReduce, 3, 6, 4), -1);
}

TEST(Partition, SegmentsTileTheChunkWithinTheLimit) {
  constexpr std::size_t kSegmentBytes = 100;
  for (const std::size_t count : {0, 1, 24, 25, 26, 50, 51, 999}) {
    for (const int chunks : {1, 2, 7}) {
      const std::size_t segments =
          segments_for(Collective::kAllReduce, 2, count, chunks, 4, kSegmentBytes);
      std::size_t longest = 0;
      for (int c = 0; c < chunks; ++c) {
        const Range chunk = chunk_range(Collective::kAllReduce, 2, count, chunks, c);
        std::size_t at = chunk.begin;
        for (std::size_t i = 0; i < segments; ++i) {
          const Range r = segment_range(chunk, segments, i);
          EXPECT_EQ(r.begin, at);
          at = r.end();
          longest = std::max(longest, r.count);
        }
        EXPECT_EQ(at, chunk.end());
      }
      EXPECT_LE(longest * 4, kSegmentBytes);
    }
  }
  EXPECT_EQ(segments_for(Collective::kAllReduce, 2, 0, 2, 4, kSegmentBytes), 1u);
  EXPECT_EQ(segments_for(Collective::kAllReduce, 2, 52, 2, 4, kSegmentBytes), 2u);
  EXPECT_EQ(segments_for(Collective::kAllReduce, 2, 5, 1, 8, 4), 5u);  // at least one element each
}

}  // namespace
}  // namespace syncline::plan
