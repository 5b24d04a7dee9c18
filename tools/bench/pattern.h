// Inputs whose results are exact in every type and order, and the check against them. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "syncline/types.h"

namespace syncline::tools {

// Element i of rank r's input repeats with this period: a prime, so that a block which lands
// elsewhere shows.
inline constexpr std::size_t kPatternPeriod = 61;

// Immutable. One period of elements, encoded in `type`.
class Pattern {
 public:
  // What rank `rank` of `ranks` contributes to `op`.
  static Pattern input(DType type, ReduceOp op, int rank, int ranks);
  // The reduction of all inputs.
  static Pattern reduced(DType type, ReduceOp op, int ranks);
  // A filler that no input or result equals in every element.
  static Pattern filler(DType type);

  // Writes elements first, first+1, ... of the endless pattern.
  void fill(void* data, std::size_t count, std::size_t first = 0) const;
  // Number of elements that differ from it.
  std::uint64_t count_wrong(const void* data, std::size_t count, std::size_t first = 0) const;

 private:
  Pattern(DType type, std::vector<std::byte> bytes)
      : width_(size_of(type)), bytes_(std::move(bytes)) {}
  std::size_t width_;
  std::vector<std::byte> bytes_;
};

}  // namespace syncline::tools
