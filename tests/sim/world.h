// World: one simulated job from start to end, with the invariants checked at each step.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "tests/sim/plan.h"

namespace syncline::sim {

struct Outcome {
  std::string violation;     // empty: none
  std::uint64_t digest = 0;  // of everything that happened: equal for equal seeds
  Nanos virtual_time = 0;
  // What the run met, to see that rare branches are met at all.
  std::uint64_t resumes = 0;
  std::uint64_t duplicates = 0;
  std::uint64_t damaged = 0;
  std::uint64_t bytes_repeated = 0;
  std::uint64_t calls_done = 0;
  std::uint64_t calls_failed = 0;
  std::uint64_t jobs_started = 0;
  std::uint64_t joins_failed = 0;
  std::uint64_t restarts = 0;  // of ranks that had not joined yet
};

// `trace`: gets a line for every fault, log line and end of a call; may be null.
Outcome run(const Scenario& scenario, std::FILE* trace = nullptr);

}  // namespace syncline::sim
