// Where a benchmark's ranks come from.
#pragma once

#include <string>

#include "tools/bench/options.h"

namespace syncline::tools {

// Joins the job of the environment (a world of one without any), measures, and prints on rank 0.
int bench_in_job(const BenchOptions& options);
// The ranks are threads of this process.
int bench_in_threads(const BenchOptions& options, int ranks);
// Starts this program again as `ranks` ranks: here, or on the hosts of -H or --hostfile.
int bench_in_processes(const BenchOptions& options, int ranks, const std::string& host_list,
                       const std::string& hostfile, const std::string& rsh);

}  // namespace syncline::tools
