// A schedule as a flat list of steps with their partners: what the passes of the checker work on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "plan/schedule.h"

namespace syncline::plan {

struct FlatStep {
  const Step* step = nullptr;
  int rank = 0;
  int lane = 0;   // within the rank
  int index = 0;  // within the lane
  int global_lane = 0;
  int partner = -1;  // the other end of a message
};

// Immutable once flattened; borrows the schedule.
struct Program {
  const Schedule* schedule = nullptr;
  std::vector<FlatStep> steps;  // rank by rank, lane by lane
  std::vector<int> lane_begin;  // by global lane, first step; one more entry at the end
  std::vector<int> rank_lane;   // by rank, its first global lane; one more entry at the end

  int size() const { return static_cast<int>(steps.size()); }
  int lanes() const { return static_cast<int>(lane_begin.size()) - 1; }
  const FlatStep& at(int i) const { return steps[static_cast<std::size_t>(i)]; }
  // Flat number of a step of the rank of `from` that `from` names in `after`.
  int named(const FlatStep& from, const After& after) const {
    const int lane = rank_lane[static_cast<std::size_t>(from.rank)] + after.lane;
    return lane_begin[static_cast<std::size_t>(lane)] + after.step;
  }
};

// "rank 1, lane 0, step 3 (recv_reduce out[1] in[1] from 0 tag 2 element finish)".
std::string describe(const FlatStep& step);
// The same as an invalid_argument error: place, colon, what is wrong.
Status step_error(const FlatStep& step, const std::string& what);

// What memory a rank has for a chunk.
bool has_in(const Schedule& s, int rank, int chunk);
bool has_out(const Schedule& s, int rank, int chunk);

// Verifies form (see checker.h) and pairs messages.
Result<Program> flatten(const Schedule& schedule);

}  // namespace syncline::plan
