// A pairwise cover of the matrix over processes; of 8 ranks and more one case in three of it,
// unless SYNCLINE_FULL_MATRIX is set.
#include <gtest/gtest.h>

#include <cstdlib>
#include <tuple>

#include "tests/conformance/matrix.h"
#include "tests/conformance/tally.h"
#include "tests/harness/wiring.h"

namespace syncline::conformance {
namespace {

using harness::Wiring;

constexpr Collective kKinds[] = {Collective::kAllReduce, Collective::kReduceScatter,
                                 Collective::kAllGather, Collective::kBroadcast,
                                 Collective::kReduce,    Collective::kGather,
                                 Collective::kScatter,   Collective::kAllToAll};

// 0, 1, 7, one segment and one element less and more, three segments, a million elements.
constexpr std::size_t kSizes = 8;

std::size_t count_of(CaseRunner& runner, const Case& what, int ranks) {
  switch (what.count) {
    case 0:
    case 1:
      return what.count;
    case 2:
      return 7;
    case 3:
    case 4:
    case 5:
      return runner.boundary_count(what, 1, static_cast<int>(what.count) - 4);
    case 6:
      return runner.boundary_count(what, 3, 1);
    default:
      return (std::size_t{1} << 20) / static_cast<std::size_t>(ranks) + 3;
  }
}

class ProcessesMatrix : public ::testing::TestWithParam<std::tuple<Wiring, int>> {};

TEST_P(ProcessesMatrix, EveryPairOfFactors) {
  const auto [wiring, ranks] = GetParam();
  harness::run_on(wiring, ranks, [ranks = ranks](Session& session) {
    Tally tally(session.world());
    const std::size_t stride = ranks >= 8 && std::getenv("SYNCLINE_FULL_MATRIX") == nullptr ? 3 : 1;
    std::size_t turn = 0;
    for (const Collective kind : kKinds) {
      for (Case what : pairwise(kind, ranks, kSizes)) {
        if (turn++ % stride != 0) continue;
        what.count = count_of(tally.runner(), what, ranks);
        tally.run(what);
      }
    }
    for (const std::string& schedule : schedules_for(Collective::kBarrier, ranks)) {
      Case barrier;
      barrier.kind = Collective::kBarrier;
      barrier.schedule = schedule;
      tally.run(barrier);
    }
  });
}

std::string name_of(const ::testing::TestParamInfo<std::tuple<Wiring, int>>& info) {
  return harness::to_string(std::get<0>(info.param)) + "_" +
         std::to_string(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Worlds, ProcessesMatrix,
                         ::testing::Combine(::testing::Values(Wiring::kShm, Wiring::kTcp),
                                            ::testing::Values(1, 2, 3, 4, 5, 8, 11)),
                         name_of);

}  // namespace
}  // namespace syncline::conformance
