// How long the gradient buckets take to exchange: within steps, and with nothing else running.
#pragma once

#include <string>
#include <vector>

#include "syncline/torch/step_stats.h"
#include "tools/train/report.h"

namespace syncline::tools {

// Confined. Adds up what each step says about its buckets.
class BucketTimes {
 public:
  void add(const StepStats& step);
  // Collective; blocks. One entry for each bucket, times averaged over steps and ranks; `alone_us`
  // is measured now: the same all_reduce, repeated back to back, the median.
  std::vector<BucketReport> finish(Communicator& comm, const std::string& schedule) const;

 private:
  std::vector<BucketStats> buckets_;  // of the latest step
  std::vector<double> in_step_us_;    // sums
  double steps_ = 0;
};

}  // namespace syncline::tools
