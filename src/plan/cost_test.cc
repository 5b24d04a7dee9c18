#include "plan/cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/generators.h"

namespace syncline::plan {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;

Schedule all_reduce(const char* name, int n) {
  return find_generator(name)->make(Collective::kAllReduce, n, 0);
}

double seconds(const char* name, int n, std::size_t bytes, const CostParams& c,
               std::size_t segment_bytes = 128 * kKiB, DType dtype = DType::kF32) {
  return predict_seconds(all_reduce(name, n), bytes, dtype, segment_bytes, c);
}

// With latency only, the time is alpha times the longest chain of messages.
TEST(Predict, LatencyCountsTheLongestChain) {
  CostParams c;
  c.alpha_s = 1;
  for (const int n : {2, 4, 8, 16}) {
    int levels = 0;
    while ((1 << levels) < n) ++levels;
    EXPECT_DOUBLE_EQ(seconds("ring", n, 4, c), 2 * (n - 1));
    EXPECT_DOUBLE_EQ(seconds("one_shot", n, 4, c), 1);
    EXPECT_DOUBLE_EQ(seconds("two_shot", n, 4, c), 2);
    EXPECT_DOUBLE_EQ(seconds("tree", n, 4, c), 2 * levels);
    EXPECT_DOUBLE_EQ(seconds("halving_doubling", n, 4, c), 2 * levels);
    EXPECT_DOUBLE_EQ(seconds("ring_bidirectional", n, 4, c), 2 * (n - 1));
    EXPECT_DOUBLE_EQ(seconds("ring_meet", n, 4, c), 2 * (n / 2));
    EXPECT_DOUBLE_EQ(seconds("double_tree", n, 4, c), 2 * levels);
  }
}

// With bandwidth only, the busiest port decides: 2 (n - 1) / n of the vector for ring and two_shot.
TEST(Predict, BandwidthApproachesTheBusiestPort) {
  CostParams c;
  c.beta_s_per_byte = 1;
  constexpr double kBytes = 64.0 * kMiB;
  for (const int n : {2, 4, 8}) {
    const double ideal = 2.0 * (n - 1) / n * kBytes;
    for (const char* name :
         {"ring", "two_shot", "halving_doubling", "ring_bidirectional", "ring_meet"}) {
      const double predicted = seconds(name, n, 64 * kMiB, c, 32 * kKiB);
      EXPECT_GE(predicted, ideal * 0.97) << name << n;
      EXPECT_LE(predicted, ideal * 1.35) << name << n;
    }
    const double direct = seconds("one_shot", n, 64 * kMiB, c, 32 * kKiB);
    EXPECT_NEAR(direct / ((n - 1) * kBytes), 1, 0.02);
  }
}

// CPU only: every rank of a two-rank two_shot copies half three times and combines half once.
TEST(Predict, CpuCountsCopiesAndCombining) {
  CostParams c;
  c.copy_s_per_byte = 1;
  c.gamma_s_per_byte = 10;
  const double kBytes = 8.0 * kMiB;
  EXPECT_NEAR(seconds("two_shot", 2, 8 * kMiB, c) / (kBytes * (1.5 + 5)), 1, 0.02);
  c.ranks_per_host = 4;
  c.cores_per_host = 2;
  EXPECT_NEAR(seconds("two_shot", 2, 8 * kMiB, c) / (kBytes * 2 * (1.5 + 5)), 1, 0.02);
}

TEST(Predict, ExtrapolationAgreesWithFullSimulation) {
  CostParams c = default_cost("shm", 4, 4);
  for (const char* name : {"ring", "two_shot", "tree", "halving_doubling"}) {
    const double twelve = seconds(name, 4, 12 * 4 * 32 * kKiB, c, 32 * kKiB);
    const double many = seconds(name, 4, 48 * 4 * 32 * kKiB, c, 32 * kKiB);
    EXPECT_NEAR(many / twelve, 4, 0.4) << name;
  }
}

TEST(Predict, PartialSumsOfHalvesTravelWide) {
  CostParams c;
  c.beta_s_per_byte = 1;
  const double narrow = seconds("two_shot", 8, kMiB, c, 256 * kKiB, DType::kBF16);
  const double wide = seconds("ring", 8, kMiB, c, 256 * kKiB, DType::kBF16);
  EXPECT_GT(wide, narrow * 1.3);
}

// Two hosts of four: flat ring-like schedules send from every rank, hierarchical ones once a host.
TEST(Predict, RanksOfAHostShareItsPort) {
  CostParams c;
  c.beta_s_per_byte = 1;
  c.host_of = {0, 0, 0, 0, 1, 1, 1, 1};
  const auto of = [&](const char* name, DType dtype = DType::kF32) {
    const Schedule s = find_generator(name)->make(Collective::kAllReduce, 8, 0, c.host_of);
    return predict_seconds(s, 8 * kMiB, dtype, 32 * kKiB, c);
  };
  const double bytes = 8.0 * kMiB;
  EXPECT_NEAR(of("hierarchical:two_shot/two_shot") / bytes, 1, 0.1);  // half out, half back
  EXPECT_NEAR(of("hierarchical:tree/one_shot") / bytes, 1, 0.1);
  EXPECT_NEAR(of("two_shot") / bytes, 4, 0.2);  // four ranks: 1/2 of the vector there and back
  EXPECT_NEAR(of("ring") / bytes, 1.75, 0.2);   // one link crosses
  CostParams uniform = c;
  uniform.host_of.clear();
  EXPECT_LT(seconds("two_shot", 8, 8 * kMiB, uniform), of("two_shot") / 2);
}

TEST(Predict, MessagesWithinAHostHaveCostsOfTheirOwn) {
  CostParams c;
  c.alpha_s = 1000;
  c.local.alpha_s = 1;
  c.host_of = {0, 0, 1, 1};
  const auto of = [&](const char* name) {
    return predict_seconds(find_generator(name)->make(Collective::kAllReduce, 4, 0, c.host_of), 4,
                           DType::kF32, 128 * kKiB, c);
  };
  EXPECT_DOUBLE_EQ(of("hierarchical:one_shot/one_shot"), 1002);
  EXPECT_DOUBLE_EQ(of("hierarchical:two_shot/two_shot"), 2002);
  EXPECT_DOUBLE_EQ(of("one_shot"), 1000);
  c.host_of = {7, 7, 7, 7};
  EXPECT_DOUBLE_EQ(of("one_shot"), 1);
  c.host_of.clear();  // not known
  EXPECT_DOUBLE_EQ(of("one_shot"), 1000);
}

TEST(Predict, NothingToDoTakesNoTime) {
  const Schedule solo = find_generator("ring")->make(Collective::kBroadcast, 1, 0);
  EXPECT_EQ(predict_seconds(solo, kMiB, DType::kF32, 128 * kKiB, default_cost("shm", 1, 2)), 0);
}

TEST(Choose, ExplainsItself) {
  Request r;
  r.ranks = 2;
  r.bytes = 512 * kKiB;
  const Result<Choice> choice = choose(r, default_cost("shm", 2, 2));
  ASSERT_TRUE(choice.ok()) << choice.status().to_string();
  EXPECT_THAT(choice->reason, StartsWith(choice->name + " "));
  EXPECT_THAT(choice->reason, HasSubstr(" us < "));
  EXPECT_THAT(choice->reason, HasSubstr(" at 512 KiB over 2 ranks"));
  const Schedule s = find_generator(choice->name)->make(r.kind, 2, 0);
  EXPECT_EQ(choice->predicted_s,
            predict_seconds(s, r.bytes, r.dtype, choice->segment_bytes, default_cost("shm", 2, 2)));
}

TEST(Choose, SmallGoesDirectLargeSavesBytes) {
  Request r;
  r.ranks = 8;
  r.bytes = 64;
  CostParams tcp = default_cost("tcp", 1, 0);
  tcp.step_s = 0.2e-6;
  EXPECT_EQ(choose(r, tcp)->name, "one_shot");
  r.bytes = 64 * kMiB;
  EXPECT_NE(choose(r, tcp)->name, "one_shot");
  EXPECT_NE(choose(r, tcp)->name, "tree");
}

TEST(Choose, TwoWayRingsAreTriedWhereTheyMayWin) {
  Request r;
  r.ranks = 8;
  r.bytes = kMiB;
  EXPECT_THAT(
      choose(r, default_cost("shm", 8, 8))->reason,
      testing::Not(testing::AnyOf(HasSubstr("ring_meet"), HasSubstr("ring_bidirectional"))));
  const std::string reason = choose(r, default_cost("tcp", 1, 8))->reason;
  EXPECT_LT(reason.find("ring_meet"), reason.find(" ring "));  // half the steps, the same bytes
  const std::string_view asked[] = {"ring_bidirectional"};
  r.allowed = asked;
  EXPECT_EQ(choose(r, default_cost("shm", 8, 8))->name, "ring_bidirectional");
}

TEST(Choose, SeveralRanksOnSeveralHostsMakeAHierarchy) {
  CostParams c = default_cost("shm+tcp", 4, 4);
  c.host_of = {0, 0, 0, 0, 1, 1, 1, 1};
  Request r;
  r.ranks = 8;
  for (const std::size_t bytes : {64 * kKiB, 32 * kMiB}) {
    r.bytes = bytes;
    EXPECT_THAT(choose(r, c)->name, StartsWith("hierarchical:"));
    r.canonical_only = true;
    EXPECT_THAT(choose(r, c)->name, StartsWith("hierarchical:"));
    r.canonical_only = false;
  }
  c.host_of = {0, 1, 2, 3, 4, 5, 6, 7};  // nothing to gain inside
  EXPECT_THAT(choose(r, c)->reason, testing::Not(HasSubstr("hierarchical")));
  c.host_of = {0, 0, 0, 0, 0, 0, 0, 0};
  EXPECT_THAT(choose(r, c)->reason, testing::Not(HasSubstr("hierarchical")));
  c.host_of = {0, 0};
  EXPECT_EQ(choose(r, c).status().code(), Code::kInvalidArgument);
}

// A frame costs system calls on both sides, which nothing hides where no wire is waited for.
TEST(Choose, TcpWithinAHostHasLongerSegmentsThanBetweenHosts) {
  Request r;
  r.ranks = 2;
  r.bytes = 512 * kKiB;
  CostParams c = default_cost("tcp", 2, 2);
  c.host_of = {0, 0};
  const std::size_t within = choose(r, c)->segment_bytes;
  c.host_of = {0, 1};
  EXPECT_GT(within, choose(r, c)->segment_bytes);
}

TEST(Choose, ObeysLimits) {
  Request r;
  r.ranks = 3;
  r.bytes = kMiB;
  const CostParams c = default_cost("shm", 3, 4);
  const std::string_view ring[] = {"ring"};
  r.allowed = ring;
  EXPECT_EQ(choose(r, c)->name, "ring");
  r.canonical_only = true;
  EXPECT_EQ(choose(r, c).status().code(), Code::kUnsupported);
  EXPECT_THAT(choose(r, c).status().message(), HasSubstr("reproducible all_reduce over 3 ranks"));
  EXPECT_THAT(choose(r, c).status().message(),
              HasSubstr("allow one of one_shot, two_shot, tree, halving_doubling"));
  r.allowed = {};
  EXPECT_NE(choose(r, c)->name, "ring");
  const std::string_view unknown[] = {"rings"};
  r.allowed = unknown;
  EXPECT_THAT(choose(r, c).status().to_string(),
              HasSubstr("unknown algorithm 'rings'; choose from one_shot,"));
  r.allowed = {};
  r.ranks = 0;
  EXPECT_EQ(choose(r, c).status().code(), Code::kInvalidArgument);
}

TEST(Choose, EveryKindAndRankCountHasAnAnswer) {
  for (int k = 0; k < kCollectiveCount; ++k) {
    for (const int n : {1, 2, 3, 6, 8, 13}) {
      Request r;
      r.kind = static_cast<Collective>(k);
      r.ranks = n;
      r.root = n - 1;
      r.bytes = r.kind == Collective::kBarrier ? 0 : 1000003;
      r.dtype = DType::kBF16;
      const Result<Choice> choice = choose(r, default_cost("tcp", 1, 0));
      EXPECT_TRUE(choice.ok()) << choice.status().to_string();
    }
  }
}

}  // namespace
}  // namespace syncline::plan
