#include "plan/partition.h"

#include <algorithm>

#include "base/assert.h"

namespace syncline::plan {

Range split_evenly(std::size_t count, std::size_t parts, std::size_t index) {
  const std::size_t base = count / parts;
  const std::size_t extra = count % parts;
  return {index * base + std::min(index, extra), base + (index < extra ? 1 : 0)};
}

Range chunk_range(Collective kind, int ranks, std::size_t count, int chunks, int chunk) {
  SYNCLINE_ASSERT(chunk >= 0 && chunk < chunks, "chunk index out of range");
  const auto parts = static_cast<std::size_t>(chunks);
  const auto index = static_cast<std::size_t>(chunk);
  if (!has_blocks(kind)) return split_evenly(count, parts, index);
  const auto blocks = static_cast<std::size_t>(block_count(kind, ranks));
  SYNCLINE_ASSERT(parts % blocks == 0 && count % blocks == 0, "chunks must subdivide equal blocks");
  const std::size_t per_block = parts / blocks;
  const std::size_t block = count / blocks;
  Range range = split_evenly(block, per_block, index % per_block);
  range.begin += index / per_block * block;
  return range;
}

int block_owner(Collective kind, int ranks, int chunks, int chunk) {
  if (!has_blocks(kind)) return -1;
  const int block = chunk / (chunks / block_count(kind, ranks));
  return kind == Collective::kAllToAll ? block / ranks : block;
}

int chunk_receiver(Collective kind, int ranks, int root, int chunks, int chunk) {
  switch (kind) {
    case Collective::kGather:
      return root;
    case Collective::kReduceScatter:
    case Collective::kScatter:
      return block_owner(kind, ranks, chunks, chunk);
    case Collective::kAllToAll:
      return chunk / (chunks / block_count(kind, ranks)) % ranks;
    default:
      return -1;
  }
}

Range segment_range(Range chunk, std::size_t segments, std::size_t segment) {
  Range range = split_evenly(chunk.count, segments, segment);
  range.begin += chunk.begin;
  return range;
}

std::size_t segments_for(Collective kind, int ranks, std::size_t count, int chunks,
                         std::size_t element_bytes, std::size_t segment_bytes) {
  const std::size_t longest = chunk_range(kind, ranks, count, chunks, 0).count;
  const std::size_t elements = std::max<std::size_t>(1, segment_bytes / element_bytes);
  return std::max<std::size_t>(1, longest / elements + (longest % elements != 0 ? 1 : 0));
}

std::size_t widest_element_bytes(const Schedule& schedule, DType dtype) {
  for (const RankProgram& rank : schedule.ranks) {
    for (const Lane& lane : rank.lanes) {
      for (const Step& step : lane.steps) {
        if (step.kind == StepKind::kSend && step.wire == Wire::kAccumulator)
          return accumulate_bytes(dtype);
      }
    }
  }
  return size_of(dtype);
}

std::size_t segments_of(const Schedule& schedule, std::size_t count, DType dtype,
                        std::size_t segment_bytes) {
  return segments_for(schedule.kind, schedule.size(), count, schedule.chunks,
                      widest_element_bytes(schedule, dtype), segment_bytes);
}

}  // namespace syncline::plan
