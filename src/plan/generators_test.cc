// Proves every schedule that the generators make: world sizes 1..33, several roots.
#include "plan/generators.h"

#include <gtest/gtest.h>

#include <set>

#include "plan/checker.h"
#include "plan/partition.h"
#include "plan/text.h"
#include "tests/harness/instrumented.h"

namespace syncline::plan {
namespace {

constexpr int kRanksProved = harness::kInstrumented ? 13 : 33;

template <class Visit>
void for_each_schedule(const Generator& generator, Visit visit) {
  for (int k = 0; k < kCollectiveCount; ++k) {
    const auto kind = static_cast<Collective>(k);
    const bool rooted = is_rooted(kind);
    for (int n = 1; n <= kRanksProved; ++n) {
      if (!generator.supports(kind, n)) continue;
      const std::set<int> roots = rooted ? std::set<int>{0, 1 % n, n / 2, n - 1} : std::set<int>{0};
      for (const int root : roots) visit(generator.make(kind, n, root), kind, n, root);
    }
  }
}

class EveryGenerator : public testing::TestWithParam<const char*> {
 protected:
  const Generator& generator() const { return *find_generator(GetParam()); }
};

TEST_P(EveryGenerator, IsProved) {
  int proved = 0;
  for_each_schedule(generator(), [&](const Schedule& s, Collective kind, int n, int root) {
    SCOPED_TRACE(std::string(to_string(kind)) + " n=" + std::to_string(n) +
                 " root=" + std::to_string(root));
    EXPECT_EQ(s.name, GetParam());
    EXPECT_EQ(s.kind, kind);
    EXPECT_EQ(s.size(), n);
    const Status status = check(s);
    EXPECT_TRUE(status.ok()) << status.to_string();
    ++proved;
  });
  EXPECT_GE(proved, kRanksProved);
}

TEST_P(EveryGenerator, SumsCanonicallyUnlessItsWayForbids) {
  for_each_schedule(generator(), [&](const Schedule& s, Collective kind, int n, int) {
    const bool sums = kind == Collective::kAllReduce || kind == Collective::kReduce ||
                      kind == Collective::kReduceScatter;
    const bool ring = s.name.starts_with("ring") || s.name == "double_tree";
    EXPECT_EQ(s.canonical_sum, sums && (n == 1 || !ring)) << s.name << " n=" << n;
  });
}

TEST_P(EveryGenerator, SurvivesTextRoundTrip) {
  for_each_schedule(generator(), [&](const Schedule& s, Collective, int, int) {
    const Result<Schedule> copy = from_text(to_text(s));
    ASSERT_TRUE(copy.ok()) << copy.status().to_string();
    EXPECT_TRUE(copy.value() == s) << to_text(s);
  });
}

INSTANTIATE_TEST_SUITE_P(All, EveryGenerator,
                         testing::Values("ring", "one_shot", "two_shot", "tree", "halving_doubling",
                                         "ring_bidirectional", "ring_meet", "double_tree", "star"),
                         [](const auto& param) { return std::string(param.param); });

TEST(Generators, TableIsWhole) {
  EXPECT_EQ(all_generators().size(), 9u + 5u * 5u);
  EXPECT_EQ(find_generator("butterfly"), nullptr);
  for (const Generator& g : all_generators()) {
    EXPECT_EQ(find_generator(g.name), &g);
    EXPECT_FALSE(g.supports(Collective::kAllReduce, 0));
    EXPECT_EQ(g.supports(Collective::kAllReduce, 1), g.hierarchy == nullptr);
    EXPECT_TRUE(g.supports(Collective::kAllReduce, 1, std::vector<int>{7}));
  }
}

TEST(Generators, RanksAboveAPowerOfTwoNeedPowersOfTwoForBlocks) {
  const Generator& g = *find_generator("halving_doubling");
  EXPECT_TRUE(g.supports(Collective::kReduceScatter, 8));
  EXPECT_FALSE(g.supports(Collective::kReduceScatter, 6));
  EXPECT_TRUE(g.supports(Collective::kAllReduce, 6));
}

}  // namespace
}  // namespace syncline::plan
