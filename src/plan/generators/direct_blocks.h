// Blocks that go straight from the rank that has them to the rank that needs them: gather, scatter
// and all_to_all of the direct generator. Each appends one rank's lanes.
#pragma once

#include "plan/builder.h"

namespace syncline::plan {

// Every rank sends its block to the root, which takes them in the order of the ranks after it.
void add_direct_gather(Builder& b, int n, int rank, int root);
void add_direct_scatter(Builder& b, int n, int rank, int root);
// Linear exchange: in round i every rank sends to the i-th rank after it and receives from the i-th
// before it, so that nobody meets at one rank (Thakur, Rabenseifner and Gropp, "Optimization of
// collective communication operations in MPICH", 2005).
void add_direct_all_to_all(Builder& b, int n, int rank);

}  // namespace syncline::plan
