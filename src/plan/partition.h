// Where chunks and segments lie in the whole vector: pure arithmetic, thread-safe.
//
// `count` is the number of elements of the whole vector: for reduce_scatter and all_gather that is
// ranks * block, and chunks subdivide the equal blocks, so chunk c belongs to block c / (chunks /
// ranks).
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

// True for reduce_scatter and all_gather: the whole vector is one equal block per rank.
constexpr bool has_blocks(Collective kind) {
  return kind == Collective::kReduceScatter || kind == Collective::kAllGather;
}

// True if contributions are combined, so that a finish lies between them and the result.
constexpr bool is_reduction(Collective kind) {
  return kind == Collective::kAllReduce || kind == Collective::kReduceScatter ||
         kind == Collective::kReduce;
}

// Part `index` of `parts` parts whose sizes differ by at most one; the first ones are the larger
// ones.
Range split_evenly(std::size_t count, std::size_t parts, std::size_t index);

// The place of a chunk. For block kinds `count` is a multiple of `ranks`, `chunks` one of `ranks`.
Range chunk_range(Collective kind, int ranks, std::size_t count, int chunks, int chunk);

// The rank whose block a chunk is part of; -1 for kinds without blocks.
int block_owner(Collective kind, int ranks, int chunks, int chunk);

// The place of segment `segment` of `segments` within the whole vector; may be empty.
Range segment_range(Range chunk, std::size_t segments, std::size_t segment);

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
