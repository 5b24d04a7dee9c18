// Hierarchical schedules in running groups: every inner with every outer one over several shapes of
// hosts, and groups split from them.
#include <gtest/gtest.h>

#include <set>

#include "plan/generators.h"
#include "tests/conformance/each_wiring.h"
#include "tests/conformance/tally.h"
#include "tests/harness/calls.h"
#include "tests/harness/instrumented.h"
#include "tests/harness/thread_job.h"

namespace syncline::conformance {
namespace {

struct Shape {
  const char* name;
  std::vector<int> host_of;
};

const Shape kShapes[] = {{"pairs", {0, 0, 1, 1}},
                         {"dealt", {0, 1, 0, 1, 0, 1}},
                         {"unequal", {0, 0, 0, 1, 2, 2}},
                         {"one_and_many", {3, 7, 7, 7, 7}},
                         {"three_of_three", {0, 0, 0, 1, 1, 1, 2, 2, 2}},
                         {"one_host", {5, 5, 5}},
                         {"all_apart", {0, 1, 2}}};

class Hierarchies : public ::testing::TestWithParam<Shape> {};

void run_all(Tally& tally, const Shape& shape, std::size_t first_turn) {
  const int ranks = static_cast<int>(shape.host_of.size());
  std::size_t turn = first_turn;
  for (const plan::Generator& generator : plan::all_generators()) {
    if (generator.hierarchy == nullptr) continue;
    for (int k = 0; k < kCollectiveCount; ++k) {
      const auto kind = static_cast<Collective>(k);
      if (!generator.supports(kind, ranks, shape.host_of)) continue;
      for (const std::size_t count : {0, 1, 7, 4099, 200003}) {
        Case what;
        what.kind = kind;
        what.type = static_cast<DType>(turn % kDTypeCount);
        what.op = ReduceOp::kSum;
        what.count = count;
        what.schedule = generator.name;
        what.root = static_cast<int>(turn % static_cast<std::size_t>(ranks));
        what.in_place = turn % 3 == 0;
        tally.run(what);
        ++turn;
      }
    }
  }
}

TEST_P(Hierarchies, EveryInnerWithEveryOuterOnThreads) {
  harness::run_ranks_on_hosts(GetParam().host_of, [](Session& session) {
    Tally tally(session.world());
    run_all(tally, GetParam(), 0);
    if (harness::kInstrumented) return;
    for (const std::size_t first_turn : {1, 4}) run_all(tally, GetParam(), first_turn);
  });
}

TEST_P(Hierarchies, TheBareWordLeavesTheChoiceToThePlannerOnThreads) {
  harness::run_ranks_on_hosts(GetParam().host_of, [](Session& session) {
    for (const std::size_t count : {1, 70000, 3000000}) {
      const PlanInfo plan = session.world().plan(Collective::kAllReduce, DType::kF32, count,
                                                 harness::with_schedule("hierarchical"));
      EXPECT_EQ(plan.schedule.rfind("hierarchical:", 0), 0u) << plan.schedule;
      EXPECT_NE(plan.reason.find(" < hierarchical:"), std::string::npos) << plan.reason;
    }
    std::vector<float> x(1001, 1.0f);
    session.world()
        .all_reduce({x.data(), x.size()}, ReduceOp::kSum, harness::with_schedule("hierarchical"))
        .wait();
    EXPECT_EQ(x, std::vector<float>(1001, static_cast<float>(session.world_size())));
  });
}

INSTANTIATE_TEST_SUITE_P(Over, Hierarchies, ::testing::ValuesIn(kShapes),
                         [](const auto& param) { return std::string(param.param.name); });

// A split group has the hosts of its own ranks, in its own order.
TEST(HierarchicalSplit, GroupsKnowTheirHostsOnThreads) {
  harness::run_ranks_on_hosts({0, 0, 1, 1, 2, 2}, [](Session& session) {
    const int rank = session.rank();
    // Without rank 5, in reverse order: hosts 2, 1, 1, 0, 0.
    Communicator group = session.world().split(rank == 5 ? -1 : 0, -rank);
    if (!group.valid()) return;
    for (const char* schedule :
         {"hierarchical", "hierarchical:two_shot/ring", "hierarchical:ring/tree"}) {
      for (const std::size_t count : {5, 100000}) {
        std::vector<std::int32_t> x(count, group.rank() + 1);
        group.all_reduce({x.data(), x.size()}, ReduceOp::kSum, harness::with_schedule(schedule))
            .wait();
        EXPECT_EQ(x, std::vector<std::int32_t>(count, 15)) << schedule;
      }
    }
    // Of one host only.
    Communicator host = group.split(rank / 2);
    std::int32_t y = 1;
    host.all_reduce({&y, 1}, ReduceOp::kSum, harness::with_schedule("hierarchical")).wait();
    EXPECT_EQ(y, host.size());
  });
}

TEST(HierarchicalReproducible, AlignedHostsAreAdmittedAndOthersAreNot) {
  SessionOptions options = harness::test_options();
  options.reproducible = true;
  const auto sum = [](Session& session, const char* schedule) {
    const float inputs[] = {1e8f, 1, 1, -1e8f, 1e8f, 1, -1e8f, 3};
    float x = inputs[session.rank()];
    session.world().all_reduce({&x, 1}, ReduceOp::kSum, harness::with_schedule(schedule)).wait();
    return x;
  };
  const std::vector<int> blocks = {0, 0, 0, 0, 1, 1, 1, 1}, dealt = {0, 1, 0, 1, 0, 1, 0, 1};
  harness::run_ranks_on_hosts(
      blocks,
      [&](Session& session) {
        const float flat = sum(session, "tree");
        int admitted = 0;
        for (const plan::Generator* generator : plan::generators_named("hierarchical")) {
          if (!generator->make(Collective::kAllReduce, 8, 0, blocks).canonical_sum) continue;
          EXPECT_EQ(sum(session, generator->name), flat) << generator->name;
          ++admitted;
        }
        EXPECT_EQ(admitted, 16);  // four ways without ring, inside and across
        EXPECT_EQ(sum(session, "hierarchical"), flat);
        EXPECT_EQ(code_of([&] { sum(session, "hierarchical:two_shot/ring"); }),
                  Code::kInvalidArgument);
      },
      options);
  harness::run_ranks_on_hosts(
      dealt,
      [&](Session& session) {
        EXPECT_EQ(code_of([&] { sum(session, "hierarchical"); }), Code::kInvalidArgument);
        EXPECT_EQ(code_of([&] { sum(session, "hierarchical:tree/tree"); }), Code::kInvalidArgument);
      },
      options);
}

}  // namespace
}  // namespace syncline::conformance
