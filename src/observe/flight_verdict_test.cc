#include "observe/flight_verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <deque>

#include "observe/flight_fixture_test.h"

namespace syncline::observe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Verdict : public ::testing::Test {
 protected:
  Verdict() {
    for (int rank = 0; rank < 4; ++rank) ranks_.emplace_back(rank);
  }
  void all_call(std::uint64_t op, bool ends) {
    for (RecordedRank& rank : ranks_) rank.call(op, ends);
  }
  // Of all ranks that have no dump yet.
  FlightVerdict verdict(Nanos age = 5 * kSecond) {
    for (int rank = 0; rank < 4; ++rank) {
      if (absent_ == rank) continue;
      if (rank == noted_) {
        dumps_.push_back(ranks_[static_cast<std::size_t>(rank)].dump(age, note_));
      } else {
        dumps_.push_back(ranks_[static_cast<std::size_t>(rank)].dump(age));
      }
    }
    for (const FlightDump& dump : dumps_) summaries_.push_back(summarize(dump));
    return judge(summaries_);
  }
  void note(int rank, flight::DumpNote note) {
    noted_ = rank;
    note_ = note;
  }

  std::deque<RecordedRank> ranks_;
  std::deque<FlightDump> dumps_;
  std::vector<FlightRank> summaries_;
  int absent_ = -1;
  int noted_ = -1;
  flight::DumpNote note_;
};

TEST_F(Verdict, NobodyToBlame) {
  all_call(1, true);
  all_call(2, false);
  const FlightVerdict found = verdict(kMillisecond);
  EXPECT_EQ(found.cause, "nothing");
  EXPECT_THAT(found.culprits, IsEmpty());
}

TEST_F(Verdict, WhoNeverCalled) {
  all_call(1, true);
  for (const std::size_t rank : {0u, 1u, 3u}) {
    ranks_[rank].call(2, false);
    ranks_[rank].waits_for(2, {2});
  }
  const FlightVerdict found = verdict();
  EXPECT_EQ(found.cause, "not_called");
  EXPECT_THAT(found.culprits, ElementsAre(2));
  EXPECT_THAT(found.text, HasSubstr("rank 2 has not called #2 all_reduce(f32, 100 elements, sum) "
                                    "'grad', in which ranks 0-1, 3 wait 5."));
  ASSERT_EQ(found.evidence.size(), 1u);
  EXPECT_THAT(found.evidence[0], HasSubstr("its last call was #1 all_reduce"));
  const auto groups = compare_groups(summaries_);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].last_common, 1u);
  EXPECT_EQ(groups[0].last_called, 2u);
}

TEST_F(Verdict, WhoWaitsInAnEarlierOperationIsNotBlamed) {
  all_call(1, true);
  ranks_[0].call(2, true);
  ranks_[0].call(3, false);
  ranks_[1].call(2, false);
  ranks_[1].waits_for(2, {2});
  ranks_[3].call(2, false);
  EXPECT_THAT(verdict().culprits, ElementsAre(2));
}

TEST_F(Verdict, NeverCalledAnything) {
  for (const std::size_t rank : {0u, 1u, 2u}) ranks_[rank].call(1, false);
  const FlightVerdict found = verdict();
  EXPECT_THAT(found.culprits, ElementsAre(3));
  EXPECT_THAT(found.evidence.at(0), HasSubstr("has called nothing"));
}

TEST_F(Verdict, TimeoutsCountAsWaiting) {
  for (const std::size_t rank : {0u, 1u, 2u}) {
    ranks_[rank].call(1, false);
    ranks_[rank].fail(1, Code::kTimeout, -1, "not finished");
  }
  const FlightVerdict found = verdict();
  EXPECT_EQ(found.cause, "not_called");
  EXPECT_THAT(found.culprits, ElementsAre(3));
}

TEST_F(Verdict, TheMinorityOfAMismatch) {
  all_call(1, true);
  for (const std::size_t rank : {0u, 1u, 3u}) ranks_[rank].call(2, false);
  ranks_[2].call(2, false, 77);
  const FlightVerdict found = verdict();
  EXPECT_EQ(found.cause, "mismatch");
  EXPECT_THAT(found.culprits, ElementsAre(2));
  EXPECT_THAT(found.evidence, ::testing::Contains(HasSubstr("rank 2 called all_reduce(f32, 77")));
  EXPECT_EQ(compare_groups(summaries_)[0].last_common, 1u);
}

TEST_F(Verdict, AMismatchWithoutMajorityNamesAll) {
  for (const std::size_t rank : {0u, 1u}) ranks_[rank].call(1, false);
  for (const std::size_t rank : {2u, 3u}) ranks_[rank].call(1, false, 77);
  EXPECT_THAT(verdict().culprits, ElementsAre(0, 1, 2, 3));
}

TEST_F(Verdict, WhoWasKilled) {
  all_call(1, true);
  all_call(2, false);
  for (const std::size_t rank : {0u, 1u, 2u}) {
    ranks_[rank].fail(2, Code::kPeerLost, 3, "rank 3 died");
  }
  flight::DumpNote how;
  how.reason = flight::Reason::kProcessEnd;
  how.signal = SIGKILL;
  note(3, how);
  const FlightVerdict found = verdict();
  EXPECT_EQ(found.cause, "killed");
  EXPECT_THAT(found.culprits, ElementsAre(3));
  EXPECT_THAT(found.text, HasSubstr("died (killed by SIGKILL) in #2 all_reduce"));
}

TEST_F(Verdict, WhoDiedBeforeItsCallWasOnRecord) {
  all_call(1, true);
  ranks_[2].recorder.called(ranks_[2].group, 2);
  flight::DumpNote how;
  how.reason = flight::Reason::kProcessEnd;
  how.signal = SIGSEGV;
  note(2, how);
  EXPECT_THAT(verdict().text, HasSubstr("rank 2 died (killed by SIGSEGV) in #2 (not on record)"));
}

TEST_F(Verdict, WhoWasAskedToEndIsNotKilled) {
  all_call(1, true);
  for (const std::size_t rank : {0u, 1u, 2u}) ranks_[rank].call(2, false);
  flight::DumpNote how;
  how.reason = flight::Reason::kProcessEnd;
  how.signal = SIGTERM;
  note(3, how);
  EXPECT_EQ(verdict().cause, "not_called");
}

TEST_F(Verdict, WhoIsStopped) {
  all_call(1, false);
  flight::DumpNote how;
  how.reason = flight::Reason::kRequest;
  how.process_state = 'T';
  note(1, how);
  const FlightVerdict found = verdict();
  EXPECT_EQ(found.cause, "stopped");
  EXPECT_THAT(found.culprits, ElementsAre(1));
}

TEST_F(Verdict, ARankWithoutRecord) {
  absent_ = 2;
  for (const std::size_t rank : {0u, 1u, 3u}) {
    ranks_[rank].call(1, false);
    ranks_[rank].waits_for(1, {2});
  }
  ranks_[0].recorder.peer(flight::Kind::kVerdict, 1, 1, {2, -1, {}, 0}, 3, "has not called it");
  const FlightVerdict found = verdict();
  EXPECT_EQ(found.cause, "no_record");
  EXPECT_THAT(found.culprits, ElementsAre(2));
  EXPECT_THAT(found.text, HasSubstr("has not called it"));
  EXPECT_THAT(missing_ranks(summaries_), ElementsAre(2));
}

TEST_F(Verdict, ALostPeer) {
  absent_ = 0;
  all_call(1, false);
  for (const std::size_t rank : {1u, 2u, 3u}) {
    ranks_[rank].fail(1, Code::kPeerLost, 0, "rank 0 was silent for 10 s");
  }
  const FlightVerdict found = verdict();
  EXPECT_EQ(found.cause, "lost");
  EXPECT_THAT(found.culprits, ElementsAre(0));
  EXPECT_THAT(found.evidence.at(0), HasSubstr("was silent"));
}

TEST_F(Verdict, WhoIsAwaitedAndAwaitsNobody) {
  all_call(1, false);
  for (const std::size_t rank : {0u, 1u, 2u}) ranks_[rank].waits_for(1, {3});
  const FlightVerdict found = verdict();
  EXPECT_EQ(found.cause, "waits");
  EXPECT_THAT(found.culprits, ElementsAre(3));
}

TEST(Ranks, AsText) {
  EXPECT_EQ(ranks_text({3}), "rank 3");
  EXPECT_EQ(ranks_text({0, 1, 2, 5, 7, 8}), "ranks 0-2, 5, 7-8");
}

TEST(Summary, ControlCharactersStayOut) {
  RecordedRank rank(0);
  rank.call(1, false);
  rank.fail(1, Code::kPeerLost, 3, "red \x1b[31m");
  const FlightDump dump = rank.dump();
  EXPECT_EQ(summarize(dump).first_failed()->text, "red ?[31m");
}

}  // namespace
}  // namespace syncline::observe
