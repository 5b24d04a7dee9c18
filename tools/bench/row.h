// Results of a benchmark.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/bench/options.h"

namespace syncline::tools {

// One way of calling an operation, measured at one size.
struct Timing {
  double mean_us = 0;  // slowest rank's mean over all timed operations
  double min_us = 0;   // rank 0's samples, as are the next three
  double p50_us = 0;
  double p99_us = 0;
  double max_us = 0;
  double cpu_us = 0;     // CPU time of rank 0's process per operation
  double algbw_gbs = 0;  // from mean_us
  double busbw_gbs = 0;
  std::int64_t wrong = -1;  // elements, over all ranks; -1 = not checked
};

// With --reproducible: what the planner chooses without it, measured in turns with it.
struct FreeChoice {
  std::string schedule;
  double p50_us = 0;  // of the free choice, rank 0's samples
  // Time of the reproducible call over that of the free one next to it: median, and between which
  // values eight of ten pairs lie.
  double ratio = 0;
  double ratio_p10 = 0;
  double ratio_p90 = 0;
  std::int64_t wrong = -1;  // as Timing's
};

struct Row {
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;  // elements of a rank's block
  std::string schedule;
  std::string transport;
  double predicted_us = 0;
  std::optional<Timing> out_of_place;
  std::optional<Timing> in_place;
  std::optional<FreeChoice> free;

  const Timing& main() const { return out_of_place ? *out_of_place : *in_place; }
};

struct BenchReport {
  BenchOptions options;
  int ranks = 1;
  int local_ranks = 1;
  std::string machine;  // CPU, cores, kernel
  std::vector<Row> rows;

  std::int64_t wrong() const;
  double mean_busbw() const;  // over rows and ways, as nccl-tests' last line
};

}  // namespace syncline::tools
