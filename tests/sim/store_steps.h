// Steps of a store in virtual time, on hosts whose ports all have one rate: as many bytes as a
// model has, no faults. Case PS-11.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"

namespace syncline::sim {

struct StepsPlan {
  int workers = 1;
  int servers = 1;
  std::vector<std::size_t> counts;  // f32 elements of each key
  std::int64_t bytes_per_ms = 0;    // of each port, in each direction
  Nanos latency = 0;
  int steps = 1;
};

struct StepsOutcome {
  std::string problem;           // empty: none
  std::vector<double> seconds;   // of each step, from its begin to the last worker's last answer
  double predicted_seconds = 0;  // ps/store_cost.h
  double max_over_mean = 0;      // bytes by server
};

StepsOutcome run(const StepsPlan& plan);

}  // namespace syncline::sim
