// Benchmark results as text. Pure.
#pragma once

#include <string>

#include "tools/bench/row.h"

namespace syncline::tools {

// In the format that report.options names: "table" (nccl-tests' columns and p50, p99), "osu",
// "nccl-tests" (JSON with nccl-tests' key names) or "json" (ours).
std::string format_report(const BenchReport& report);

// {"schema":"syncline.bench/1",...,"rows":[...]}: one line with newline.
std::string report_json(const BenchReport& report);

// "AMD EPYC 9B14, 2 cores, Linux 6.1.0"
std::string machine_line();

}  // namespace syncline::tools
