// RoundSums: of one slice, the sums of the clocks whose contributions come in.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "ps/canonical_sum.h"

namespace syncline::ps {

// One push that has arrived whole.
struct Contribution {
  int worker = 0;
  int layer = 0;  // pushes of this worker and clock before it
  std::uint64_t clock = 0;
  double samples = 1;
  Buffer data;            // of rows: their ids, then their gradients
  std::size_t count = 0;  // elements; rows
  bool summed = false;    // of several workers, in the accumulate type
  bool weighted = false;  // by their samples already
};

// What one clock comes to.
struct RoundSum {
  Buffer data;  // in the accumulate type
  double samples = 0;
  std::uint64_t contributions = 0;
  std::uint64_t age = 0;  // the largest
  bool weighted = false;  // each contribution was multiplied by its samples
};

// Confined.
class RoundSums {
 public:
  RoundSums(int workers, DType type, std::size_t count, Buffers& buffers)
      : workers_(workers), type_(type), count_(count), buffers_(&buffers) {}

  void keep(Contribution contribution, std::uint64_t age);
  // No more comes of this clock; no data: there is nothing.
  RoundSum take(std::uint64_t clock);
  // The same in parts, each for a push of its own, so that the sum of several hosts has the bits
  // that it has without them: of the workers' first pushes, of their second ones, ... The last part
  // has the samples of all.
  std::vector<RoundSum> take_parts(std::uint64_t clock);
  // Of contributions that are kept.
  std::uint64_t held_bytes() const;
  // In the accumulate type, from a buffer in the slice's own.
  Buffer widen(Buffer data);

 private:
  struct Open {
    CanonicalSum sum;
    RoundSum so_far;
    std::uint64_t pushes = 0;
  };
  std::size_t wide_bytes() const;

  int workers_;
  DType type_;
  std::size_t count_;
  Buffers* buffers_;
  std::map<std::uint64_t, Open> open_;
};

}  // namespace syncline::ps
