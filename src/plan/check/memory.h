// Symbolic memory of all ranks, with a happens-before race detector (the idea of FastTrack,
// Flanagan and Freund 2009: per place the last write and the reads since). Confined to one check.
#pragma once

#include <vector>

#include "plan/check/expressions.h"
#include "plan/check/order.h"
#include "plan/check/values.h"

namespace syncline::plan {

class Memory {
 public:
  // Fills the inputs with leaves.
  Memory(const Program& program, const Order& order, Aliasing aliasing, Expressions& expressions);

  // The place of a slice; equal for slices of one rank that share memory.
  std::size_t place(int rank, const Slice& slice) const;

  // Step `i` reads or writes a place. Fails on a race or, reading, where nothing was written.
  Result<Expr> read(int i, const Slice& slice);
  Status write(int i, const Slice& slice, Expr value);

  // Without race detection; kNothing if never written.
  Expr value(int rank, const Slice& slice) const { return cells_[place(rank, slice)].value; }

 private:
  struct Cell {
    Expr value = kNothing;
    int writer = -1;
    std::vector<int> readers;  // since the last write
  };

  Status race(int i, int other, const Slice& slice) const;

  const Program& p_;
  const Order& order_;
  const Aliasing aliasing_;
  std::vector<std::size_t> rank_begin_;
  std::vector<Cell> cells_;
};

// "in place, accumulating in place": for messages.
const char* to_text(Aliasing aliasing);

}  // namespace syncline::plan
