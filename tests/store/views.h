// Vectors as tensors, and the wirings of a store's tests.
#pragma once

#include <cstdint>
#include <vector>

#include "syncline/tensor_view.h"
#include "tests/conformance/each_wiring.h"

namespace syncline::store {

using Ids = std::vector<std::int64_t>;

inline TensorView view(std::vector<float>& values) { return {values.data(), values.size()}; }
inline ConstTensorView view(const Ids& ids) { return {ids.data(), ids.size()}; }

}  // namespace syncline::store

// Shares in the workers' processes, and servers; on several hosts their sums come first.
#define SYNCLINE_ON_EACH_STORE(fixture)                                                           \
  INSTANTIATE_TEST_SUITE_P(                                                                       \
      Over, fixture,                                                                              \
      ::testing::Values(::syncline::harness::Wiring::kThreads, ::syncline::harness::Wiring::kShm, \
                        ::syncline::harness::Wiring::kTcp, ::syncline::harness::Wiring::kServers, \
                        ::syncline::harness::Wiring::kHosts),                                     \
      ::syncline::conformance::wiring_name)
