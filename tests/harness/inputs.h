// Inputs whose reductions are exact in every type, whatever the order of the operands, and the
// results that follow from them. Pure functions.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "syncline/types.h"

namespace syncline::harness {

// Inputs repeat after this many elements: a prime, so that no chunk or segment hides a shift.
inline constexpr std::size_t kPeriod = 251;

using Bytes = std::vector<std::byte>;

// One period of a rank's contribution. Floats are small integers and both zeros (powers of two for
// products), integers any bits, bool 0 or 1.
Bytes contribution(DType type, ReduceOp op, int rank);

// One period of the reduction of the contributions of ranks 0 .. ranks-1, by slow and obvious
// arithmetic.
Bytes reduction(DType type, ReduceOp op, int ranks);
// The same for given contributions, all of the same length.
Bytes reduction(DType type, ReduceOp op, std::span<const Bytes> contributions);

// Elements [begin, begin + count) of the endless repetition of `period`.
void repeat(const Bytes& period, DType type, std::size_t begin, std::size_t count, void* dst);

// True where kernels define the pair.
bool is_defined(DType type, ReduceOp op);

// One element of `type` that holds `value` (rounded to nearest even), and back.
Bytes element(DType type, double value);
double value_of(DType type, const void* element);

// `count` elements that all hold `value`.
Bytes filled(DType type, std::size_t count, double value);

}  // namespace syncline::harness
