// One collective call of the benchmark with its memory and the check of its result.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <new>

#include "plan/partition.h"
#include "syncline/communicator.h"
#include "tools/bench/options.h"
#include "tools/bench/pattern.h"

namespace syncline::tools {

// Page-aligned memory, touched once so that no page fault falls into the timed part.
class TouchedMemory {
 public:
  explicit TouchedMemory(std::size_t bytes) {
    const std::size_t whole = (bytes / 4096 + 1) * 4096;
    data_ = std::aligned_alloc(4096, whole);
    if (data_ == nullptr) throw std::bad_alloc();
    std::fill_n(static_cast<char*>(data_), whole, '\0');
  }
  ~TouchedMemory() { std::free(data_); }
  TouchedMemory(const TouchedMemory&) = delete;
  TouchedMemory& operator=(const TouchedMemory&) = delete;
  void* get() const { return data_; }
  std::byte* at(std::size_t offset) const { return static_cast<std::byte*>(data_) + offset; }

 private:
  void* data_;
};

// Confined: one operation at one size on one rank. Input and output lie where the way of calling
// wants them.
class BenchCase {
 public:
  BenchCase(Communicator& world, const BenchOptions& options, std::uint64_t bytes, bool in_place)
      : world_(world),
        o_(options),
        in_place_(in_place),
        n_(static_cast<std::size_t>(world.size())),
        rank_(static_cast<std::size_t>(world.rank())),
        total_(bytes / size_of(options.type)),
        block_(plan::has_blocks(o_.kind) ? total_ / n_ : total_),
        in_(std::max<std::size_t>(bytes, 1)),
        out_(in_place ? 1 : std::max<std::size_t>(bytes, 1)) {}

  static bool exists(Collective kind, bool in_place) {
    if (kind == Collective::kAllToAll) return !in_place;
    if (kind == Collective::kBarrier || kind == Collective::kBroadcast) return in_place;
    return true;
  }

  std::size_t block() const { return block_; }
  void prepare();
  void run(const CallOptions& call = {});
  // Wrong elements on this rank after prepare() and one run().
  std::uint64_t count_wrong() const;

 private:
  std::size_t own_offset() const { return rank_ * block_ * size_of(o_.type); }
  // Block r of the output against rank r's input from element `first` on.
  std::uint64_t count_wrong_blocks(std::size_t first) const;
  bool is_root() const { return static_cast<int>(rank_) == o_.root; }
  ConstTensorView input() const;
  TensorView output() const;
  Pattern input_of(std::size_t rank) const {
    return Pattern::input(o_.type, o_.op, static_cast<int>(rank), static_cast<int>(n_));
  }

  Communicator& world_;
  const BenchOptions& o_;
  const bool in_place_;
  const std::size_t n_, rank_, total_, block_;
  TouchedMemory in_, out_;
};

}  // namespace syncline::tools
