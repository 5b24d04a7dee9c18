// Layout: where each (chunk, segment) of an operation lies. Immutable.
//
// The arithmetic of plan/partition.h without divisions in the steps.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "exec/blocks.h"

namespace syncline::exec {

struct Extent {
  std::size_t begin = 0;  // element of the whole vector; with Blocks, of the block
  std::size_t count = 0;
};

class Layout {
 public:
  Layout() = default;
  // `block_count` elements in each of `blocks` blocks, `chunks` chunks in all (a multiple of
  // blocks).
  Layout(std::size_t block_count, std::uint32_t blocks, std::uint32_t chunks,
         std::uint32_t segments)
      : block_count_(block_count),
        per_block_(blocks == chunks ? 1 : chunks / blocks),
        segments_(segments) {
    // Small messages have one chunk and one segment: no division for them.
    base_ = per_block_ == 1 ? block_count : block_count / per_block_;
    rest_ = per_block_ == 1 ? 0 : block_count % per_block_;
    short_ = split(base_, segments);
    long_ = split(base_ + 1, segments);
  }

  // One chunk per block, each cut by itself. The blocks must outlive the layout.
  explicit Layout(const Blocks& blocks) : per_block_(0), segments_(1), blocks_(&blocks) {
    const std::size_t longest = blocks.longest();
    const std::size_t each = blocks.segment_elements;
    base_ = std::min(longest, each);
    short_ = {base_, 0};
    if (longest > each) {
      segments_ = static_cast<std::uint32_t>(longest / each + (longest % each != 0 ? 1 : 0));
    }
  }

  Extent extent(std::uint32_t chunk, std::uint32_t segment) const {
    std::size_t begin = 0;
    std::size_t within = chunk;
    if (per_block_ == 1) {
      begin = chunk * block_count_;
      within = 0;
    } else if (per_block_ == 0) {
      return block_extent(chunk, segment);
    } else if (chunk >= per_block_) {
      begin = chunk / per_block_ * block_count_;
      within = chunk % per_block_;
    }
    const Split& split = within < rest_ ? long_ : short_;
    begin += within * base_ + std::min(within, rest_);
    return {begin + segment * split.each + std::min<std::size_t>(segment, split.rest),
            split.each + (segment < split.rest ? 1 : 0)};
  }

  std::uint32_t segments() const { return segments_; }
  // Elements of the longest segment.
  std::size_t segment_count_max() const {
    const Split& split = rest_ > 0 ? long_ : short_;
    return split.each + (split.rest > 0 ? 1 : 0);
  }

  // True where the chunk has no such segment: others are longer.
  bool is_past(std::uint32_t chunk, std::uint32_t segment) const {
    return blocks_ != nullptr && segment >= blocks_->segments(chunk);
  }

 private:
  Extent block_extent(std::uint32_t chunk, std::uint32_t segment) const {
    const std::size_t count = blocks_->count(chunk);
    const std::size_t begin = std::min(count, segment * blocks_->segment_elements);
    return {begin, std::min(blocks_->segment_elements, count - begin)};
  }
  struct Split {
    std::size_t each = 0;
    std::size_t rest = 0;
  };
  static Split split(std::size_t count, std::uint32_t segments) {
    return segments == 1 ? Split{count, 0} : Split{count / segments, count % segments};
  }

  std::size_t block_count_ = 0;
  std::size_t per_block_ = 1;
  std::size_t base_ = 0;
  std::size_t rest_ = 0;
  Split short_;
  Split long_;
  std::uint32_t segments_ = 1;
  const Blocks* blocks_ = nullptr;
};

}  // namespace syncline::exec
