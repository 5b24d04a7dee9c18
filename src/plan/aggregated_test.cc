// All-reduce through aggregators: proved, and each byte of a worker goes once each way.
#include <gtest/gtest.h>

#include "plan/checker.h"
#include "plan/formulas.h"
#include "plan/generators.h"
#include "plan/text.h"
#include "tests/harness/instrumented.h"

namespace syncline::plan {
namespace {

constexpr int kWorkersProved = harness::kInstrumented ? 7 : 17;
constexpr std::size_t kCount = 60;  // divisible by 1 .. 5

template <class Visit>
void for_each_aggregated(Visit visit) {
  for (int workers = 1; workers <= kWorkersProved; ++workers) {
    for (int aggregators = 1; aggregators <= 5; ++aggregators) {
      SCOPED_TRACE(std::to_string(workers) + " workers, " + std::to_string(aggregators));
      visit(make_aggregated(workers, aggregators), workers, aggregators);
    }
  }
}

TEST(Aggregated, IsProvedAndCanonical) {
  for_each_aggregated([](const Schedule& s, int workers, int aggregators) {
    EXPECT_EQ(s.size(), workers + aggregators);
    const Status status = check_canonical(s);
    EXPECT_TRUE(status.ok()) << status.to_string();
    EXPECT_TRUE(s.canonical_sum);
  });
}

TEST(Aggregated, WorkersSendAndReceiveEachByteOnce) {
  for_each_aggregated([](const Schedule& s, int workers, int aggregators) {
    const auto parts = static_cast<std::uint64_t>(aggregators);
    for (int rank = 0; rank < workers; ++rank) {
      const Traffic t = count_traffic(s, rank, kCount);
      EXPECT_EQ(t.elements_sent, kCount);
      EXPECT_EQ(t.elements_received, kCount);
      EXPECT_EQ(t.messages_sent, parts);
      EXPECT_EQ(t.combines, 0u);
      EXPECT_EQ(t.partials_sent, 0u);
    }
    for (int rank = workers; rank < s.size(); ++rank) {
      const Traffic t = count_traffic(s, rank, kCount);
      const auto n = static_cast<std::uint64_t>(workers);
      EXPECT_EQ(t.elements_received, n * kCount / parts);
      EXPECT_EQ(t.elements_sent, n * kCount / parts);
      EXPECT_EQ(t.combines, n - 1);
    }
  });
}

TEST(Aggregated, SurvivesTextRoundTrip) {
  const Schedule s = make_aggregated(3, 2);
  const Result<Schedule> copy = from_text(to_text(s));
  ASSERT_TRUE(copy.ok()) << copy.status().to_string();
  EXPECT_TRUE(copy.value() == s) << to_text(s);
}

TEST(Aggregated, HelpersNeitherGiveNorReceive) {
  Schedule s = make_aggregated(2, 1);
  EXPECT_FALSE(s.ranks[2].contributes);
  EXPECT_FALSE(s.ranks[2].receives);
  // One who gives must have what it gives added.
  s.ranks[2].contributes = true;
  EXPECT_FALSE(check(s).ok());
}

TEST(Aggregated, NeedsBoth) {
  EXPECT_TRUE(aggregated_supports(1, 1));
  EXPECT_FALSE(aggregated_supports(0, 1));
  EXPECT_FALSE(aggregated_supports(2, 0));
  EXPECT_FALSE(aggregated_supports(kRanksMaxQuadratic, 1));
}

}  // namespace
}  // namespace syncline::plan
