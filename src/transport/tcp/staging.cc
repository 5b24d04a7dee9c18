#include "transport/tcp/staging.h"

#include <cstring>

#include "base/assert.h"

namespace syncline::transport::tcp {

std::span<std::byte> Staging::space(std::size_t frame_bytes, std::size_t frame_bytes_max) {
  SYNCLINE_ASSERT(frame_bytes_max <= kBlockBytes && frame_bytes <= frame_bytes_max,
                  "a frame fits into a block");
  if (current_ == nullptr) current_ = fresh();
  const std::size_t have = size();
  SYNCLINE_ASSERT(have < frame_bytes, "take the frame before reading on");
  if (have == 0 && current_->held == 0) current_->begin = current_->end = 0;
  // A frame that starts too near the end would have to be moved later.
  const bool fits = current_->begin + frame_bytes <= kBlockBytes;
  const bool roll = have == 0 ? current_->begin + frame_bytes_max > kBlockBytes : !fits;
  if (roll) {
    Block* next = current_->held == 0 ? current_ : fresh();
    std::memmove(next->memory.get(), data(), have);
    next->begin = 0;
    next->end = have;
    current_ = next;
  }
  // Stop at the frame's end if the next one could not stay in this block.
  const std::size_t frame_end = current_->begin + frame_bytes;
  const bool last =
      have > 0 && frame_end > current_->end && frame_end + frame_bytes_max > kBlockBytes;
  const std::size_t limit = last ? frame_end : kBlockBytes;
  return {current_->memory.get() + current_->end, limit - current_->end};
}

Staging::Block* Staging::take(std::size_t bytes) {
  SYNCLINE_ASSERT(bytes <= size(), "only staged bytes can be taken");
  current_->begin += bytes;
  ++current_->held;
  return current_;
}

void Staging::release(Block* block) {
  SYNCLINE_ASSERT(block->held > 0, "released more often than taken");
  if (--block->held == 0 && block != current_) {
    block->begin = block->end = 0;
    free_.push_back(block);
  }
}

Staging::Block* Staging::fresh() {
  if (!free_.empty()) {
    Block* block = free_.back();
    free_.pop_back();
    return block;
  }
  auto block = std::make_unique<Block>();
  // Not initialised: pages that no frame reaches cost nothing.
  block->memory = std::unique_ptr<std::byte[]>(new std::byte[kBlockBytes]);
  all_.push_back(std::move(block));
  return all_.back().get();
}

}  // namespace syncline::transport::tcp
