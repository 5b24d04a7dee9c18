// StepReport: what ranks tell each other at the end of a step, in one small sum.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "syncline/communicator.h"

namespace syncline::torch_detail {

// Externally synchronised. Doubles: counts and sample numbers below 2^53 add exactly.
class StepReport {
 public:
  struct Mine {
    bool active = true;     // false: a rank that has run out of batches
    bool weighted = false;  // it called set_samples, or the divisor is the active ranks
    double samples = 0;
    bool failed = false;  // its backward threw
  };

  // used[i] != 0: the parameter got a gradient on this rank.
  void launch(Communicator& comm, const std::vector<char>& used, const Mine& mine,
              const CallOptions& options);
  // Blocks. Throws the exchange's Error, or kCancelled naming a rank whose backward threw, or
  // kMismatch when some ranks weight and others do not.
  void wait();
  void abandon() { sum_.reset(); }

  const std::vector<double>& used() const { return *sum_; }  // ranks that used parameter i
  double samples() const { return at_end(kSamples); }

 private:
  enum Tail { kSamples, kWeighted, kActive, kFailed, kFailedRanks, kTail };
  double at_end(Tail slot) const { return (*sum_)[sum_->size() - kTail + slot]; }

  std::shared_ptr<std::vector<double>> sum_;
  Work work_;
};

}  // namespace syncline::torch_detail
