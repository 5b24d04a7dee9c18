// Tally: the cases of one rank; reports the first few that are wrong.
#pragma once

#include <gtest/gtest.h>

#include "tests/conformance/case.h"

namespace syncline::conformance {

// Confined.
class Tally {
 public:
  explicit Tally(Communicator& world) : runner_(world) {}

  void run(const Case& what) {
    const std::string wrong = runner_.run(what);
    if (!wrong.empty() && ++wrong_ <= 5) ADD_FAILURE() << wrong;
  }
  CaseRunner& runner() { return runner_; }

 private:
  CaseRunner runner_;
  std::size_t wrong_ = 0;
};

}  // namespace syncline::conformance
