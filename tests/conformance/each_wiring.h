// Fixture of tests whose bodies run over threads, shm and tcp alike.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "tests/harness/calls.h"
#include "tests/harness/wiring.h"

namespace syncline::conformance {

class EachWiring : public ::testing::TestWithParam<harness::Wiring> {
 protected:
  void run(int ranks, const harness::RankBody& body,
           const SessionOptions& options = harness::test_options()) const {
    harness::run_on(GetParam(), ranks, body, options);
  }
};

inline std::string wiring_name(const ::testing::TestParamInfo<harness::Wiring>& info) {
  return harness::to_string(info.param);
}

// The code of the Error that the call throws, kOk if none.
inline Code code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  return Code::kOk;
}

// All ranks contribute their rank + 1; true if the sum is right.
inline bool works(Communicator& group, std::size_t count = 5) {
  const harness::Bytes in = harness::filled(DType::kI32, count, group.rank() + 1);
  const int n = group.size();
  return harness::all_reduce(group, DType::kI32, in, ReduceOp::kSum) ==
         harness::filled(DType::kI32, count, n * (n + 1) / 2);
}

}  // namespace syncline::conformance

// Instantiates the tests of a fixture derived from EachWiring.
#define SYNCLINE_ON_EACH_WIRING(fixture)                                                          \
  INSTANTIATE_TEST_SUITE_P(                                                                       \
      Over, fixture,                                                                              \
      ::testing::Values(::syncline::harness::Wiring::kThreads, ::syncline::harness::Wiring::kShm, \
                        ::syncline::harness::Wiring::kTcp),                                       \
      ::syncline::conformance::wiring_name)
