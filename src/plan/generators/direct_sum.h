// The canonical sum of everyone's chunk at one rank: the receiving half of the direct generators.
#pragma once

#include "plan/builder.h"

namespace syncline::plan {

// Appends to the lane the steps that receive `chunk` from every other rank (one message each, named
// `key`), add it all in canonical order and write the finished sum to kOut. Partial sums stay in
// scratch: at most one slot per level of the tree, none for two ranks. Only the last step writes
// kOut and it is the newest step of the lane afterwards, so the caller may make it wait for sends
// that still read kIn; it is returned. `n` contributors are ranks 0 .. n - 1.
After append_direct_sum(Builder& b, LaneRef at, int n, int chunk, MessageKey key);

}  // namespace syncline::plan
