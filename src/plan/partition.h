// Where chunks and segments lie in the whole vector: pure arithmetic, thread-safe.
//
// `count` is the number of elements of the whole vector: for kinds with blocks that is
// block_count() * block, and chunks subdivide the equal blocks, so chunk c belongs to block c /
// (chunks / block_count()).
#pragma once

#include <cstddef>

#include "plan/schedule.h"
#include "syncline/types.h"

namespace syncline::plan {

struct Range {
  std::size_t begin = 0;  // elements
  std::size_t count = 0;
  std::size_t end() const { return begin + count; }
  friend bool operator==(const Range&, const Range&) = default;
};

// True where the whole vector consists of equal blocks: one per rank, or for all_to_all one per
// ordered pair of ranks, block s * ranks + d being what rank s gives to rank d.
constexpr bool has_blocks(Collective kind) {
  return kind == Collective::kReduceScatter || kind == Collective::kAllGather ||
         kind == Collective::kGather || kind == Collective::kScatter ||
         kind == Collective::kAllToAll;
}

constexpr int block_count(Collective kind, int ranks) {
  if (!has_blocks(kind)) return 1;
  return kind == Collective::kAllToAll ? ranks * ranks : ranks;
}

// True where one rank gives or gets everything.
constexpr bool is_rooted(Collective kind) {
  return kind == Collective::kBroadcast || kind == Collective::kReduce ||
         kind == Collective::kGather || kind == Collective::kScatter;
}

// True if contributions are combined, so that a finish lies between them and the result.
constexpr bool is_reduction(Collective kind) {
  return kind == Collective::kAllReduce || kind == Collective::kReduceScatter ||
         kind == Collective::kReduce;
}

// Part `index` of `parts` parts whose sizes differ by at most one; the first ones are the larger
// ones.
Range split_evenly(std::size_t count, std::size_t parts, std::size_t index);

// The place of a chunk. For block kinds `count` and `chunks` are multiples of block_count().
Range chunk_range(Collective kind, int ranks, std::size_t count, int chunks, int chunk);

// The rank whose block a chunk is part of, for all_to_all the one that gives it; -1 for kinds
// without blocks.
int block_owner(Collective kind, int ranks, int chunks, int chunk);

// The place of segment `segment` of `segments` within the whole vector; may be empty.
Range segment_range(Range chunk, std::size_t segments, std::size_t segment);

// The rank that ends with a chunk where only one does (reduce_scatter, gather, scatter,
// all_to_all); -1 elsewhere.
int chunk_receiver(Collective kind, int ranks, int root, int chunks, int chunk);

// How many segments every chunk is cut into, at least 1: no segment is longer than segment_bytes
// (but a segment holds at least one element). Pass the widest element that travels or is kept in
// scratch.
std::size_t segments_for(Collective kind, int ranks, std::size_t count, int chunks,
                         std::size_t element_bytes, std::size_t segment_bytes);

// Bytes of one partial result: 4 for f16 and bf16, else those of the type.
constexpr std::size_t accumulate_bytes(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16 ? 4 : size_of(dtype);
}

// Bytes of the widest element that a schedule's messages carry.
std::size_t widest_element_bytes(const Schedule& schedule, DType dtype);

// segments_for() of a schedule and the widest element that travels: no frame exceeds segment_bytes
// (unless one element does).
std::size_t segments_of(const Schedule& schedule, std::size_t count, DType dtype,
                        std::size_t segment_bytes);

}  // namespace syncline::plan
