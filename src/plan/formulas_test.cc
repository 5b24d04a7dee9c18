// Steps and elements of every generated schedule equal the closed formulas.
#include "plan/formulas.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "plan/generators.h"
#include "plan/partition.h"
#include "tests/harness/instrumented.h"

namespace syncline::plan {
namespace {

constexpr int kRanksCounted = harness::kInstrumented ? 13 : 33;

std::string text_of(const Traffic& t) {
  return "sent " + std::to_string(t.messages_sent) + " messages " +
         std::to_string(t.elements_sent) + " elements " + std::to_string(t.partials_sent) +
         " partials, received " + std::to_string(t.messages_received) + " messages " +
         std::to_string(t.elements_received) + " elements " + std::to_string(t.partials_received) +
         " partials, combines " + std::to_string(t.combines) + ", local " +
         std::to_string(t.local_steps);
}

void expect_formula(const Generator& g, Collective kind, int n, int root, std::size_t count) {
  const Schedule s = g.make(kind, n, root);
  for (int rank = 0; rank < n; ++rank) {
    const Traffic counted = count_traffic(s, rank, count);
    const Result<Traffic> formula = traffic_formula(g.name, kind, n, root, rank, count);
    ASSERT_TRUE(formula.ok()) << formula.status().to_string();
    EXPECT_EQ(text_of(counted), text_of(formula.value()))
        << g.name << " " << to_string(kind) << " n=" << n << " root=" << root << " rank=" << rank
        << " count=" << count;
    EXPECT_TRUE(counted == formula.value());
  }
}

class Formulas : public testing::TestWithParam<const char*> {};

TEST_P(Formulas, EqualTheSchedules) {
  const Generator& g = *find_generator(GetParam());
  for (int k = 0; k < kCollectiveCount; ++k) {
    const auto kind = static_cast<Collective>(k);
    const bool rooted = is_rooted(kind);
    for (int n = 1; n <= kRanksCounted; ++n) {
      if (!g.supports(kind, n)) continue;
      const std::set<int> roots = rooted ? std::set<int>{0, 1 % n, n / 2, n - 1} : std::set<int>{0};
      for (const int root : roots) {
        for (const int count : {0, 1, n - 1, n, n + 1, 7 * n + 3, 1000}) {
          const int whole = count * block_count(kind, n);
          expect_formula(g, kind, n, root, static_cast<std::size_t>(whole));
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Formulas,
                         testing::Values("ring", "one_shot", "two_shot", "tree", "halving_doubling",
                                         "ring_bidirectional", "ring_meet", "double_tree", "star"),
                         [](const auto& param) { return std::string(param.param); });

TEST(FormulasOf, WellKnownCases) {
  const auto sent = [](const char* name, int n, std::size_t count) {
    const Traffic t = traffic_formula(name, Collective::kAllReduce, n, 0, 0, count).value();
    return t.elements_sent + t.partials_sent;
  };
  EXPECT_EQ(sent("ring", 4, 400), 600u);  // 2 (n - 1) / n
  EXPECT_EQ(sent("two_shot", 4, 400), 600u);
  EXPECT_EQ(sent("halving_doubling", 4, 400), 600u);
  EXPECT_EQ(sent("one_shot", 4, 400), 1200u);
  EXPECT_EQ(sent("star", 4, 400), 1200u);
  EXPECT_EQ(sent("tree", 4, 400), 800u);  // rank 0 has two children
}

TEST(FormulasOf, WhatIsNotSupported) {
  EXPECT_EQ(traffic_formula("two_shot", Collective::kBarrier, 2, 0, 0, 1).status().code(),
            Code::kUnsupported);
  EXPECT_EQ(traffic_formula("zigzag", Collective::kAllReduce, 2, 0, 0, 1).status().code(),
            Code::kUnsupported);
}

}  // namespace
}  // namespace syncline::plan
