// Runs one collective at one size and measures it.
#pragma once

#include "syncline/communicator.h"
#include "tools/bench/row.h"

namespace syncline::tools {

// Collective: every rank calls it with the same arguments. The row is complete on rank 0 only.
// Throws Error.
Row measure(Communicator& world, const BenchOptions& options, std::uint64_t bytes);

// All sizes; collective. The report is complete on rank 0.
BenchReport measure_all(Communicator& world, const BenchOptions& options, int local_ranks);

}  // namespace syncline::tools
