// Hierarchical schedules: proof, canonical claim and closed formula over many shapes of hosts.
#include "plan/generators/hierarchical.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "plan/checker.h"
#include "plan/formulas.h"
#include "plan/generators.h"
#include "plan/text.h"
#include "tests/harness/instrumented.h"

namespace syncline::plan {
namespace {

// Instrumented builds visit all of the smallest shapes and one in eleven of the others.
constexpr std::size_t kShapeStride = harness::kInstrumented ? 11 : 1;

using Shape = std::vector<int>;  // host of each rank

Shape blocks(const std::vector<int>& sizes) {
  Shape shape;
  for (std::size_t h = 0; h < sizes.size(); ++h) {
    shape.insert(shape.end(), static_cast<std::size_t>(sizes[h]), static_cast<int>(h));
  }
  return shape;
}

// Rank r on host r modulo `hosts`.
Shape dealt(int ranks, int hosts) {
  Shape shape;
  for (int r = 0; r < ranks; ++r) shape.push_back(r % hosts);
  return shape;
}

// 1 .. 33 ranks: equal and unequal hosts, ranks in blocks, dealt in turn and shuffled.
std::vector<Shape> shapes() {
  std::vector<Shape> all = {blocks({4, 4}),       blocks({4, 4, 4, 4}), blocks({2, 2, 2}),
                            blocks({3, 3}),       blocks({4, 4, 2}),    blocks({8, 8, 8, 8}),
                            blocks({1, 2, 3, 4}), blocks({4, 2, 2}),    blocks({8, 8, 1}),
                            blocks({1, 7}),       blocks({16, 16, 1}),  dealt(12, 3)};
  std::mt19937 random(3);
  for (int n = 1; n <= 33; ++n) {
    // One host, one rank a host, or dealt to two hosts; and always a random shape.
    all.push_back(n % 3 == 0 ? blocks({n}) : dealt(n, n % 3 == 1 ? n : 2));
    std::uniform_int_distribution<int> host(0, n / 3);
    Shape shape;
    for (int r = 0; r < n; ++r) shape.push_back(host(random) * 10);
    all.push_back(shape);
  }
  return all;
}

std::string describe(const Shape& shape) {
  std::string text = "hosts";
  for (const int host : shape) text += " " + std::to_string(host);
  return text;
}

class EveryHierarchy : public testing::TestWithParam<std::tuple<int, int>> {
 protected:
  const Generator& generator() const {
    const auto [inner, outer] = GetParam();
    return *find_generator(std::string("hierarchical:") +
                           kWayNames[static_cast<std::size_t>(inner)] + "/" +
                           kWayNames[static_cast<std::size_t>(outer)]);
  }

  template <class Visit>
  void for_each(Visit visit) const {
    const std::vector<Shape> all = shapes();
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Shape& shape = all[i];
      if (shape.size() > 3 && i % kShapeStride != 0) continue;
      const int n = static_cast<int>(shape.size());
      SCOPED_TRACE(std::string(generator().name) + " " + describe(shape));
      for (int k = 0; k < kCollectiveCount; ++k) {
        const auto kind = static_cast<Collective>(k);
        if (!generator().supports(kind, n, shape)) continue;
        const bool rooted = kind != Collective::kAllReduce;
        for (const int root : rooted ? std::set<int>{0, n / 2, n - 1} : std::set<int>{0}) {
          visit(generator().make(kind, n, root, shape), shape, root);
        }
      }
    }
  }
};

TEST_P(EveryHierarchy, IsProvedAndNeverMissesACanonicalSumItClaims) {
  int canonical = 0, proved = 0;
  for_each([&](const Schedule& s, const Shape&, int root) {
    const Status status = check(s);  // of the claim too
    EXPECT_TRUE(status.ok()) << to_string(s.kind) << " root " << root << ": " << status.to_string();
    canonical += s.canonical_sum ? 1 : 0;
    ++proved;
  });
  EXPECT_GE(proved, 33 * 2 * 3 / static_cast<int>(kShapeStride));
  EXPECT_GE(canonical, 2);
}

TEST_P(EveryHierarchy, EqualsItsFormula) {
  for_each([&](const Schedule& s, const Shape& shape, int root) {
    for (const std::size_t count :
         {std::size_t{0}, std::size_t{1}, shape.size() + 1, std::size_t{1000}}) {
      for (int rank = 0; rank < s.size(); ++rank) {
        const auto formula =
            traffic_formula(generator().name, s.kind, s.size(), root, rank, count, shape);
        ASSERT_TRUE(formula.ok()) << formula.status().to_string();
        EXPECT_TRUE(count_traffic(s, rank, count) == formula.value())
            << to_string(s.kind) << " root " << root << " rank " << rank << " count " << count;
      }
    }
  });
}

TEST_P(EveryHierarchy, SurvivesTextRoundTrip) {
  for_each([&](const Schedule& s, const Shape&, int) {
    const Result<Schedule> copy = from_text(to_text(s));
    ASSERT_TRUE(copy.ok()) << copy.status().to_string();
    EXPECT_TRUE(copy.value() == s);
  });
}

INSTANTIATE_TEST_SUITE_P(
    All, EveryHierarchy, testing::Combine(testing::Range(0, 5), testing::Range(0, 5)),
    [](const auto& param) {
      return std::string(kWayNames[static_cast<std::size_t>(std::get<0>(param.param))]) + "_" +
             kWayNames[static_cast<std::size_t>(std::get<1>(param.param))];
    });

TEST(Hierarchical, ClaimsTheCanonicalSumExactlyWhereHostsAreAligned) {
  const auto claims = [](const char* name, const Shape& shape) {
    return find_generator(name)
        ->make(Collective::kAllReduce, static_cast<int>(shape.size()), 0, shape)
        .canonical_sum;
  };
  EXPECT_TRUE(claims("hierarchical:two_shot/two_shot", blocks({4, 4})));
  EXPECT_TRUE(claims("hierarchical:tree/halving_doubling", blocks({4, 4, 3})));
  EXPECT_TRUE(claims("hierarchical:one_shot/ring", blocks({5})));  // no outer part
  EXPECT_TRUE(claims("hierarchical:ring/one_shot", dealt(5, 5)));  // no inner part
  EXPECT_FALSE(claims("hierarchical:two_shot/ring", blocks({4, 4, 4})));
  EXPECT_FALSE(claims("hierarchical:ring/two_shot", blocks({4, 4})));
  EXPECT_FALSE(claims("hierarchical:two_shot/two_shot", blocks({3, 3})));
  EXPECT_FALSE(claims("hierarchical:two_shot/two_shot", blocks({2, 4})));
  EXPECT_FALSE(claims("hierarchical:two_shot/two_shot", dealt(8, 2)));
}

// Each host's bytes cross the network once in each direction, whatever the ranks of a host.
TEST(Hierarchical, CrossesTheNetworkOncePerHost) {
  const Shape shape = blocks({4, 4});
  for (const char* name : {"hierarchical:two_shot/two_shot", "hierarchical:ring/ring",
                           "hierarchical:tree/one_shot", "hierarchical:halving_doubling/tree"}) {
    const Schedule s = find_generator(name)->make(Collective::kAllReduce, 8, 0, shape);
    std::size_t crossing = 0;
    for (int rank = 0; rank < 4; ++rank) {
      for (const Lane& lane : s.ranks[static_cast<std::size_t>(rank)].lanes) {
        for (const Step& step : lane.steps) {
          if (step.kind == StepKind::kSend && step.peer >= 4) crossing += 800u / s.chunks;
        }
      }
    }
    EXPECT_EQ(crossing, 800u) << name;
  }
}

TEST(Hierarchical, WordsStandForGenerators) {
  EXPECT_EQ(generators_named("hierarchical").size(), 25u);
  EXPECT_EQ(generators_named("hierarchical:ring/tree").size(), 1u);
  EXPECT_EQ(generators_named("ring").size(), 1u);
  EXPECT_TRUE(generators_named("hierarchical:ring/star").empty());
  EXPECT_THAT(known_schedules(), testing::HasSubstr("hierarchical:INNER/OUTER"));
}

}  // namespace
}  // namespace syncline::plan
