// The full matrix over threads as ranks; of 8 ranks and more one case in three, unless
// SYNCLINE_FULL_MATRIX is set, and with sanitizers one case in 23 (in 101).
#include <gtest/gtest.h>

#include <cstdlib>
#include <tuple>

#include "plan/partition.h"
#include "tests/conformance/matrix.h"
#include "tests/conformance/tally.h"
#include "tests/harness/instrumented.h"
#include "tests/harness/thread_job.h"

namespace syncline::conformance {
namespace {

// Coprime to the number of levels of most factors, so that all values of each occur.
std::size_t stride_of(int ranks) {
  if (harness::kInstrumented) return ranks >= 8 ? 101 : 23;
  return ranks >= 8 && std::getenv("SYNCLINE_FULL_MATRIX") == nullptr ? 3 : 1;
}

class ThreadsMatrix : public ::testing::TestWithParam<std::tuple<Collective, int>> {
 protected:
  Collective kind() const { return std::get<0>(GetParam()); }
  int ranks() const { return std::get<1>(GetParam()); }
  std::size_t stride() const { return stride_of(ranks()); }
};

TEST_P(ThreadsMatrix, SmallCounts) {
  harness::run_ranks(ranks(), [&](Session& session) {
    Tally tally(session.world());
    std::size_t turn = 0;
    for_each_small(kind(), ranks(), [&](const Case& what) {
      if (turn++ % stride() == 0) tally.run(what);
    });
  });
}

TEST_P(ThreadsMatrix, SegmentBoundaries) {
  if (kind() == Collective::kBarrier) GTEST_SKIP() << "a barrier has no size";
  harness::run_ranks(ranks(), [&](Session& session) {
    Tally tally(session.world());
    for_each_large(kind(), ranks(), [&](Case what, std::size_t turn) {
      if (turn % stride() != 0) return;
      for (const int delta : {-1, 0, 1}) {
        what.in_place = !what.in_place;
        what.count = tally.runner().boundary_count(what, 1, delta);
        tally.run(what);
      }
      if (turn % 5 != 0) return;
      what.count = tally.runner().boundary_count(what, 3, 1);
      tally.run(what);
    });
  });
}

TEST_P(ThreadsMatrix, MillionElements) {
  if (kind() == Collective::kBarrier) GTEST_SKIP() << "a barrier has no size";
  harness::run_ranks(ranks(), [&](Session& session) {
    Tally tally(session.world());
    const auto n = static_cast<std::size_t>(ranks());
    const bool blocks = plan::has_blocks(kind());
    for_each_large(kind(), ranks(), [&](Case what, std::size_t turn) {
      if (turn % (3 * stride()) != 0) return;
      what.count = ((1 << 20) + 3) / (blocks ? n : 1);
      tally.run(what);
    });
  });
}

std::string threads_world_name(const ::testing::TestParamInfo<std::tuple<Collective, int>>& info) {
  return std::string(to_string(std::get<0>(info.param))) + "_" +
         std::to_string(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(
    Worlds, ThreadsMatrix,
    ::testing::Combine(::testing::Values(Collective::kAllReduce, Collective::kReduceScatter,
                                         Collective::kAllGather, Collective::kBroadcast,
                                         Collective::kReduce, Collective::kBarrier,
                                         Collective::kGather, Collective::kScatter,
                                         Collective::kAllToAll),
                       ::testing::Values(1, 2, 3, 4, 5, 8, 11)),
    threads_world_name);

}  // namespace
}  // namespace syncline::conformance
