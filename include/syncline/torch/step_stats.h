// StepStats: where the time of a synchronised backward went.
#ifndef SYNCLINE_TORCH_STEP_STATS_H_
#define SYNCLINE_TORCH_STEP_STATS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "syncline/communicator.h"

namespace syncline {

struct BucketStats {
  std::string name;  // "ddp0.bucket3"
  DType type = DType::kF32;
  std::size_t count = 0;  // elements
  std::size_t tensors = 0;
  PlanInfo plan;           // what the planner chose, with its prediction
  double launched_us = 0;  // since backward reached the model
  double measured_us = 0;  // launch to completion, overlap included
};

// All times in microseconds.
struct StepStats {
  std::uint64_t step = 0;  // synchronised backwards so far
  double backward_us = 0;  // from the first gradient (or output) to the last gradient
  double exposed_us = 0;   // then spent waiting for the exchange: what overlap did not hide
  double commit_us = 0;    // writing results back to .grad
  std::vector<BucketStats> buckets;
};

}  // namespace syncline

#endif  // SYNCLINE_TORCH_STEP_STATS_H_
