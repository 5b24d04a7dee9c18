// The canonical sum: the one expression that "reproducible" runs evaluate at a given world size.
//
// A node over contributors [first, first + count) with count > 1 adds the node over the first p of
// them to the node over the rest, p being the largest power of two below count. This is the
// balanced binary tree over the next power of two with missing leaves skipped.
#pragma once

#include <bit>

namespace syncline::plan {

// Largest power of two <= n, for n >= 1.
constexpr int floor_power_of_two(int n) {
  return static_cast<int>(std::bit_floor(static_cast<unsigned>(n)));
}

// How many contributors the left child of a node takes; count >= 2.
constexpr int canonical_split(int count) { return floor_power_of_two(count - 1); }

}  // namespace syncline::plan
