// Staging: where a rail's incoming bytes wait, so that every frame lies in one piece.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace syncline::transport::tcp {

// Confined. A list of equal blocks. Bytes are written to the current block; a frame that would
// straddle its end is moved to the start of the next one (or of the same, when nothing in it is
// held). A frame stays where it is from take() to release(), which come in the same order. Blocks
// are recycled, and an idle rail falls back to the start of one block, so the memory in use stays
// warm in the cache. The owner bounds the bytes held (the link's window).
class Staging {
 public:
  static constexpr std::size_t kBlockBytes = 1024 * 1024;

  // Room to write at least one byte to, enough to complete `frame_bytes` counted from the first
  // untaken byte. `frame_bytes_max` bounds every frame.
  std::span<std::byte> space(std::size_t frame_bytes, std::size_t frame_bytes_max);
  void wrote(std::size_t bytes) { current_->end += bytes; }

  // Untaken bytes, in one piece.
  const std::byte* data() const {
    return current_ ? current_->memory.get() + current_->begin : nullptr;
  }
  std::size_t size() const { return current_ ? current_->end - current_->begin : 0; }

  struct Block {
    std::unique_ptr<std::byte[]> memory;
    std::size_t begin = 0;  // first untaken byte
    std::size_t end = 0;    // first unwritten byte
    std::size_t held = 0;   // frames taken and not released
  };
  // Takes the first `bytes` untaken bytes; they stay in place until release() of the result.
  Block* take(std::size_t bytes);
  // Takes and releases at once.
  void skip(std::size_t bytes) { current_->begin += bytes; }
  void release(Block* block);
  // Forgets the untaken bytes: the connection that brought them has ended. Taken frames stay.
  void drop_untaken() {
    if (current_ != nullptr) current_->end = current_->begin;
  }

  std::size_t blocks() const { return all_.size(); }

 private:
  Block* fresh();

  std::vector<std::unique_ptr<Block>> all_;
  std::vector<Block*> free_;
  Block* current_ = nullptr;
};

}  // namespace syncline::transport::tcp
