#include "transport/inproc/inproc.h"

#include <gtest/gtest.h>

#include "tests/harness/endpoint_contract.h"

namespace syncline::harness {
namespace {

struct InprocPairs {
  static ConnectedPair make() {
    ConnectedPair pair;
    auto ends =
        transport::inproc::connect({0, pair.poller_a.get()}, {1, pair.poller_b.get()}, 1 << 20);
    pair.a = std::move(ends.first);
    pair.b = std::move(ends.second);
    return pair;
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Inproc, EndpointContract, InprocPairs);

}  // namespace
}  // namespace syncline::harness
