// Blocks: where the blocks of an operation lie when arithmetic does not tell: those of unequal
// length and those of all_to_all. Immutable once the operation runs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "syncline/types.h"

namespace syncline::exec {

struct Blocks {
  struct Block {
    std::size_t begin = 0;  // element of the rank's tensor
    std::size_t count = 0;
  };
  Collective kind{};
  std::uint32_t size = 1;
  std::uint32_t rank = 0;
  bool unequal = false;  // the `_v` form: counts differ, and ranks may know only their own
  // What the rank holds: for tensors of one block one entry, else one by rank; empty where the rank
  // has no such tensor.
  std::vector<Block> in, out;
  std::size_t segment_elements = 1;  // of every segment but the last of a block

  // `block`: index within the whole vector (plan/partition.h).
  const Block& in_block(std::uint32_t block) const {
    return in[in.size() == 1 ? 0 : kind == Collective::kAllToAll ? block % size : block];
  }
  const Block& out_block(std::uint32_t block) const {
    return out[out.size() == 1 ? 0 : kind == Collective::kAllToAll ? block / size : block];
  }
  std::size_t count(std::uint32_t block) const {
    if (kind == Collective::kAllToAll) {
      return block / size == rank ? in_block(block).count : out_block(block).count;
    }
    return in.size() > 1 || out.empty() ? in_block(block).count : out_block(block).count;
  }
  // Blocks are cut on their own: an empty one still has one segment, so that both sides learn
  // whether they agree on it.
  std::uint32_t segments(std::uint32_t block) const {
    const std::size_t whole = count(block);
    return static_cast<std::uint32_t>(std::max<std::size_t>(
        1, whole / segment_elements + (whole % segment_elements != 0 ? 1 : 0)));
  }
  // Most segments of, and most elements in, any block of this rank.
  std::size_t longest() const {
    std::size_t most = 0;
    for (const auto* side : {&in, &out}) {
      for (const Block& block : *side) most = std::max(most, block.count);
    }
    return most;
  }
};

}  // namespace syncline::exec
