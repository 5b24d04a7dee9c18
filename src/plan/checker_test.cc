// Planted errors: each must be refused with a message that tells what is wrong and where.
#include "plan/checker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "plan/generators.h"
#include "plan/text.h"

namespace syncline::plan {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Schedule make(const char* name, Collective kind, int n, int root = 0) {
  return find_generator(name)->make(kind, n, root);
}

Step& step_of(Schedule& s, std::size_t rank, std::size_t lane, std::size_t step) {
  return s.ranks.at(rank).lanes.at(lane).steps.at(step);
}

std::string refusal(const Schedule& s) {
  const Status status = check(s);
  EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.to_string();
  return status.message();
}

// `body` gives the ranks of a schedule.
Schedule written(const std::string& kind, int ranks, const std::string& body,
                 bool canonical = false) {
  const Result<Schedule> s = from_text(
      "syncline-schedule 1\nname planted\nkind " + kind + "\nranks " + std::to_string(ranks) +
      "\nchunks 1\nroot 0\ncanonical_sum " + (canonical ? "yes" : "no") + "\n" + body + "end\n");
  EXPECT_TRUE(s.ok()) << s.status().to_string();
  return s.ok() ? s.value() : Schedule{};
}

std::string rank(int number, bool receives = true, int slots = 0) {
  return "rank " + std::to_string(number) + " contributes yes receives " +
         (receives ? "yes" : "no") + " scratch_slots " + std::to_string(slots) + "\n";
}

TEST(CheckerSums, MissingContribution) {
  const Schedule s = written("reduce", 3,
                             rank(0, true, 1) +
                                 "lane\nrecv scratch[0:0] from 2 tag 0 element\n"
                                 "recv_reduce out[0] in[0] from 1 tag 0 element finish\n" +
                                 rank(1, false) + "lane\nsend in[0] to 0 tag 0 element\n" +
                                 rank(2, false) + "lane\nsend in[0] to 0 tag 0 element\n");
  EXPECT_THAT(refusal(s), HasSubstr("rank 0, chunk 0: lacks the contributions of ranks 2"));
}

TEST(CheckerSums, ContributionAddedTwice) {
  const Schedule s = written(
      "reduce", 2,
      rank(0, true, 1) +
          "lane\nrecv_reduce scratch[0:0] in[0] from 1 tag 0 element\n"
          "recv_reduce out[0] scratch[0:0] from 1 tag 1 element finish\n" +
          rank(1, false) + "lane\nsend in[0] to 0 tag 0 element\nsend in[0] to 0 tag 1 element\n");
  EXPECT_THAT(refusal(s),
              AllOf(HasSubstr("rank 0, lane 0, step 1"),
                    HasSubstr("adds the contribution of rank 1 to chunk 0 a second time")));
}

// Sends its input after it added to acc: right with separate memory, wrong where acc is the input.
TEST(CheckerSums, InputOverwrittenBeforeItIsSent) {
  const std::string late =
      "lane\nrecv_reduce acc[0] in[0] from 1 tag 0 element\n"
      "send in[0] to 1 tag 0 element\ncopy out[0] acc[0] finish\n";
  const std::string early =
      "lane\nsend in[0] to 0 tag 0 element\nrecv_reduce out[0] in[0] from 0 tag 0 element finish\n";
  EXPECT_THAT(
      refusal(written("all_reduce", 2, rank(0) + late + rank(1) + early)),
      AllOf(HasSubstr("contribution of rank 1"), HasSubstr("when in, out and acc are one")));
}

TEST(CheckerSums, RanksSumInDifferentOrder) {
  std::string body;
  for (int r = 0; r < 3; ++r) {
    const std::string next = std::to_string((r + 1) % 3), last = std::to_string((r + 2) % 3);
    body += rank(r, true, 1) + "lane\nsend in[0] to " + next + " tag 0 element\nsend in[0] to " +
            last + " tag 0 element\nrecv_reduce scratch[0:0] in[0] from " + next +
            " tag 0 element\nrecv_reduce out[0] scratch[0:0] from " + last +
            " tag 0 element finish\n";
  }
  EXPECT_THAT(refusal(written("all_reduce", 3, body)),
              AllOf(HasSubstr("rank 1, chunk 0: sums in another order than rank 0"),
                    HasSubstr("finish(0 + (1 + 2))")));
}

TEST(CheckerSums, FalseCanonicalClaim) {
  Schedule s = make("ring", Collective::kAllReduce, 3);
  EXPECT_TRUE(check(s).ok());
  s.canonical_sum = true;
  EXPECT_THAT(refusal(s), HasSubstr("claims the canonical sum finish((0 + 1) + 2) but evaluates"));
}

TEST(CheckerSums, CanonicalWithoutClaimIsProvedOrRefused) {
  Schedule s = make("two_shot", Collective::kAllReduce, 5);
  s.canonical_sum = false;
  EXPECT_TRUE(check_canonical(s).ok());
  EXPECT_TRUE(check_canonical(make("ring", Collective::kAllGather, 5)).ok());  // adds nothing
  const Status status = check_canonical(make("ring", Collective::kAllReduce, 3));
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("needs the canonical sum finish((0 + 1) + 2) but"));
}

TEST(CheckerSums, ReceiverWithoutResult) {
  Schedule s = make("one_shot", Collective::kAllReduce, 2);
  s.ranks[1].lanes[1].steps[0] = Step{};
  s.ranks[1].lanes[1].steps[0].kind = StepKind::kRecv;
  s.ranks[1].lanes[1].steps[0].peer = 0;
  s.ranks[1].lanes[1].steps[0].dst = {Buf::kAcc, 0, 0};
  EXPECT_THAT(refusal(s), HasSubstr("rank 1, chunk 0: never gets a result"));
}

TEST(CheckerFinish, Missing) {
  Schedule s = make("one_shot", Collective::kAllReduce, 2);
  step_of(s, 1, 1, 0).finish = false;
  EXPECT_THAT(refusal(s),
              AllOf(HasSubstr("rank 1, lane 1, step 0"), HasSubstr("without finish, chunk 0")));
}

TEST(CheckerFinish, Twice) {
  Schedule s = make("one_shot", Collective::kAllReduce, 2);
  Step again;
  again.kind = StepKind::kCopy;
  again.finish = true;
  again.dst = again.a = {Buf::kOut, 0, 0};
  s.ranks[0].lanes[1].steps.push_back(again);
  EXPECT_THAT(refusal(s),
              AllOf(HasSubstr("rank 0, lane 1, step 1"), HasSubstr("finishes a second time")));
}

TEST(CheckerFinish, UnfinishedResultReceived) {
  Schedule s = make("tree", Collective::kAllReduce, 2);
  step_of(s, 0, 0, 1).a.buf = Buf::kIn;
  EXPECT_THAT(refusal(s), HasSubstr("receives a result that was not finished"));
}

TEST(CheckerFinish, NotInAnAllGather) {
  Schedule s = make("ring", Collective::kAllGather, 2);
  step_of(s, 0, 1, 0).finish = true;
  EXPECT_THAT(refusal(s), HasSubstr("finish belongs to"));
}

TEST(CheckerRaces, InPlaceResultAgainstSend) {
  Schedule s = make("one_shot", Collective::kAllReduce, 2);
  step_of(s, 0, 1, 0).after.clear();
  EXPECT_THAT(refusal(s), AllOf(HasSubstr("race on"), HasSubstr("rank 0, lane 0, step 0"),
                                HasSubstr("when in is out")));
}

TEST(CheckerRaces, ScratchSharedByLanes) {
  const std::string body = rank(0, true, 1) +
                           "lane\nrecv scratch[0:0] from 1 tag 0 element\nlane\n" +
                           "recv_reduce scratch[0:0] in[0] from 2 tag 0 element\n"
                           "reduce out[0] scratch[0:0] scratch[0:0] finish after 0.0\n" +
                           rank(1, false) + "lane\nsend in[0] to 0 tag 0 element\n" +
                           rank(2, false) + "lane\nsend in[0] to 0 tag 0 element\n";
  EXPECT_THAT(refusal(written("reduce", 3, body)),
              AllOf(HasSubstr("race on scratch[0:0]"), HasSubstr("nothing orders the two")));
}

TEST(CheckerOrder, EachWaitsForTheOther) {
  const auto side = [](const char* peer) {
    return std::string("lane\nrecv_reduce acc[0] in[0] from ") + peer +
           " tag 0 element\nsend in[0] to " + peer + " tag 0 element\n";
  };
  EXPECT_THAT(
      refusal(written("all_reduce", 2, rank(0) + side("1") + rank(1) + side("0"))),
      AllOf(HasSubstr("deadlock: rank"), HasSubstr("waits for"), HasSubstr("rank 1, lane 0")));
}

TEST(CheckerOrder, DeadlockOnlyWhenSendsBlock) {
  const auto side = [](const char* peer) {
    const std::string p(peer);
    return "lane\nsend in[0] to " + p + " tag 0 element\nsend in[0] to " + p +
           " tag 1 element\nrecv scratch[0:0] from " + p +
           " tag 0 element\nrecv scratch[0:0] from " + p + " tag 1 element\n";
  };
  EXPECT_THAT(
      refusal(written("barrier", 2, rank(0, true, 1) + side("1") + rank(1, true, 1) + side("0"))),
      HasSubstr("deadlock when sends block"));
}

TEST(CheckerOrder, MessagesMayOvertake) {
  Schedule s = make("two_shot", Collective::kAllReduce, 3);
  for (Step& step : s.ranks[1].lanes[1].steps) step.after.clear();
  EXPECT_THAT(refusal(s),
              AllOf(HasSubstr("rank 1, lane 1"), HasSubstr("may overtake the message of")));
}

TEST(CheckerOrder, WaitsForItselfOrNothing) {
  Schedule s = make("one_shot", Collective::kAllReduce, 2);
  step_of(s, 0, 1, 0).after = {{1, 0}};
  EXPECT_THAT(refusal(s), HasSubstr("deadlock"));
  step_of(s, 0, 1, 0).after = {{7, 0}};
  EXPECT_THAT(refusal(s), HasSubstr("step 0 of lane 7, which does not exist"));
}

TEST(CheckerMessages, WrongWire) {
  Schedule s = make("tree", Collective::kReduce, 4);
  step_of(s, 2, 0, 1).wire = Wire::kElement;  // the partial sum of ranks 2 and 3
  EXPECT_THAT(refusal(s), AllOf(HasSubstr("rank 2, lane 0, step 1"), HasSubstr("wrong wire type")));
  s = make("tree", Collective::kReduce, 4);
  step_of(s, 0, 0, 1).wire = Wire::kElement;
  EXPECT_THAT(refusal(s),
              AllOf(HasSubstr("rank 0, lane 0, step 1"), HasSubstr("wire type differs")));
}

TEST(CheckerMessages, TagsAndPartners) {
  Schedule s = make("one_shot", Collective::kReduce, 3);
  step_of(s, 1, 0, 0).tag = 1;
  EXPECT_THAT(refusal(s), HasSubstr("tag must be 0"));
  s = make("one_shot", Collective::kReduce, 3);
  step_of(s, 0, 0, 1).tag = 1;
  EXPECT_THAT(refusal(s), HasSubstr("nobody sends this message"));
  s = make("one_shot", Collective::kReduce, 3);
  s.ranks[0].lanes[0].steps.pop_back();
  EXPECT_THAT(refusal(s), AllOf(HasSubstr("rank 2, lane 0, step 0"), HasSubstr("nobody receives")));
  s = make("one_shot", Collective::kReduce, 3);
  step_of(s, 0, 0, 1).peer = 1;
  EXPECT_THAT(refusal(s), HasSubstr("was received before"));
  s = make("one_shot", Collective::kReduce, 3);
  step_of(s, 1, 0, 0).peer = 1;
  EXPECT_THAT(refusal(s), HasSubstr("peer 1 is not another of 3 ranks"));
}

TEST(CheckerBuffers, ThatARankDoesNotHave) {
  Schedule s = make("tree", Collective::kReduce, 4);
  step_of(s, 2, 0, 0).dst = {Buf::kOut, 0, 0};
  EXPECT_THAT(refusal(s), HasSubstr("rank 2 has no out[0] in this reduce"));
  s = make("one_shot", Collective::kReduceScatter, 3);
  step_of(s, 1, 1, 1).dst.chunk = 0;
  step_of(s, 1, 1, 1).a.chunk = 0;
  EXPECT_THAT(refusal(s), HasSubstr("rank 1 has no out[0] in this reduce_scatter"));
  s = make("ring", Collective::kAllGather, 3);
  step_of(s, 0, 0, 0).a.chunk = 1;
  EXPECT_THAT(refusal(s), HasSubstr("rank 0 has no in[1] in this all_gather"));
  s = make("one_shot", Collective::kBroadcast, 3);
  step_of(s, 1, 0, 0).dst.buf = Buf::kAcc;
  EXPECT_THAT(refusal(s), HasSubstr("rank 1 has no acc[0] in this broadcast"));
  s = make("tree", Collective::kReduce, 4);
  step_of(s, 2, 0, 0).dst.slot = 1;
  EXPECT_THAT(refusal(s), HasSubstr("the rank has 1 scratch slots"));
}

TEST(CheckerBuffers, InputIsNeverWrittenAndChunksNotMixed) {
  Schedule s = make("tree", Collective::kReduce, 4);
  step_of(s, 2, 0, 0).dst = {Buf::kIn, 0, 0};
  EXPECT_THAT(refusal(s), HasSubstr("writes the input"));
  s = make("ring", Collective::kAllReduce, 3);
  step_of(s, 0, 0, 1).a.chunk = 0;
  EXPECT_THAT(refusal(s), HasSubstr("mixes chunks"));
  s = make("ring", Collective::kAllReduce, 3);
  step_of(s, 0, 0, 0).a.chunk = 1;
  EXPECT_THAT(refusal(s),
              AllOf(HasSubstr("takes chunk 2 from chunk 1"), HasSubstr("sent by rank 0")));
}

TEST(CheckerCopies, WrongOrMissingData) {
  Schedule s = make("ring", Collective::kAllGather, 3);
  s.ranks[2].lanes.pop_back();
  EXPECT_THAT(refusal(s), HasSubstr("rank 2, chunk 2: never gets it"));
  s = make("one_shot", Collective::kBarrier, 3);
  step_of(s, 1, 1, 0).kind = StepKind::kRecvReduce;
  EXPECT_THAT(refusal(s), HasSubstr("barrier combines nothing"));
}

TEST(CheckerCopies, BlocksGoToTheRightPlaces) {
  Schedule s = make("one_shot", Collective::kAllToAll, 3);  // block 3 * source + destination
  step_of(s, 0, 0, 0).a.chunk = 2;
  EXPECT_THAT(refusal(s), HasSubstr("takes chunk 1 from chunk 2"));
  s = make("one_shot", Collective::kAllToAll, 3);
  step_of(s, 1, 2, 0).dst.chunk = 1;
  EXPECT_THAT(refusal(s), HasSubstr("mixes chunks"));
  s = make("one_shot", Collective::kAllToAll, 3);
  s.ranks[2].lanes.pop_back();
  EXPECT_THAT(refusal(s), HasSubstr("rank 2, chunk 8: never gets it"));
  s = make("one_shot", Collective::kScatter, 3, 1);
  step_of(s, 0, 0, 0).dst.chunk = 2;
  EXPECT_THAT(refusal(s), HasSubstr("rank 0 has no out[2] in this scatter"));
  s = make("one_shot", Collective::kGather, 3, 1);
  step_of(s, 0, 0, 0).a.chunk = 2;
  EXPECT_THAT(refusal(s), HasSubstr("rank 0 has no in[2] in this gather"));
  s = make("one_shot", Collective::kGather, 3, 1);
  s.ranks[0].receives = true;
  EXPECT_THAT(refusal(s), HasSubstr("in gather exactly the root receives"));
}

TEST(CheckerBarrier, MayBeLeftEarly) {
  Schedule s = make("tree", Collective::kBarrier, 4);
  auto& steps = s.ranks[0].lanes[0].steps;  // two receives, then two sends
  std::rotate(steps.begin(), steps.begin() + 2, steps.end());
  EXPECT_THAT(refusal(s), HasSubstr("may leave the barrier before rank"));
}

TEST(CheckerHead, RolesAndSizes) {
  Schedule s = make("tree", Collective::kReduce, 4);
  s.ranks[1].receives = true;
  EXPECT_THAT(refusal(s), HasSubstr("in reduce exactly the root receives"));
  s = make("ring", Collective::kReduceScatter, 4);
  s.chunks = 6;
  EXPECT_THAT(refusal(s), HasSubstr("6 chunks do not subdivide the blocks of 4 ranks"));
  s = make("tree", Collective::kBroadcast, 4);
  s.root = 4;
  EXPECT_THAT(refusal(s), HasSubstr("root 4 is not one of 4 ranks"));
  EXPECT_THAT(refusal(Schedule{}), HasSubstr("0 ranks"));
}

// An aggregator takes part but neither gives nor gets; a hand-written schedule may have one.
TEST(CheckerRoles, AggregatorSums) {
  const std::string worker =
      "lane\nsend in[0] to 2 tag 0 element\nrecv acc[0] from 2 tag 0 accumulator\n"
      "copy out[0] acc[0] finish\n";
  const std::string aggregator =
      "rank 2 contributes no receives no scratch_slots 1\nlane\n"
      "recv scratch[0:0] from 0 tag 0 element\n"
      "recv_reduce scratch[0:0] scratch[0:0] from 1 tag 0 element\n"
      "send scratch[0:0] to 0 tag 0 accumulator\nsend scratch[0:0] to 1 tag 0 accumulator\n";
  const Status status =
      check(written("all_reduce", 3, rank(0) + worker + rank(1) + worker + aggregator, true));
  EXPECT_TRUE(status.ok()) << status.to_string();
}

// One changed field must never crash the checker, and must not often go unnoticed.
TEST(CheckerRobustness, RandomChangesAreSurvived) {
  std::mt19937 random(7);
  const auto below = [&random](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
  };
  int refused = 0;
  constexpr int kTrials = 3000;
  for (int trial = 0; trial < kTrials; ++trial) {
    const Generator& g = all_generators()[below(5)];
    Schedule s = g.make(Collective::kAllReduce, 2 + static_cast<int>(below(5)), 0);
    RankProgram& program = s.ranks[below(s.ranks.size())];
    auto& steps = program.lanes[below(program.lanes.size())].steps;
    Step& step = steps[below(steps.size())];
    const auto value = static_cast<std::uint16_t>(below(9));
    switch (below(8)) {
      case 0:
        step.kind = static_cast<StepKind>(value % 5);
        break;
      case 1:
        step.peer = static_cast<std::int16_t>(value - 1);
        break;
      case 2:
        step.tag = value;
        break;
      case 3:
        step.dst = {static_cast<Buf>(value % 4), static_cast<std::uint16_t>(value / 4), 0};
        break;
      case 4:
        step.a = {static_cast<Buf>(value % 4), static_cast<std::uint16_t>(value / 4), 0};
        break;
      case 5:
        step.finish = !step.finish;
        break;
      case 6:
        step.after.push_back(
            {static_cast<std::uint16_t>(value / 3), static_cast<std::uint16_t>(value % 3)});
        break;
      case 7:
        steps.erase(steps.begin() + (&step - steps.data()));
        break;
    }
    refused += check(s).ok() ? 0 : 1;
  }
  EXPECT_GT(refused, kTrials / 2);
}

}  // namespace
}  // namespace syncline::plan
