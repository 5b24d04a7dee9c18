// SIGSTOP of a rank: suspected and named after 1 s, given up after `silence`, welcome back before.
#include <gtest/gtest.h>
#include <signal.h>

#include <thread>
#include <tuple>

#include "tests/faults/fault_job.h"

namespace syncline::faults {
namespace {

class Stop : public ::testing::TestWithParam<std::tuple<const char*, int>> {};

SessionOptions with_silence(Millis silence) {
  SessionOptions options = harness::test_options();
  options.suspect = Millis(1000);
  options.silence = silence;
  return options;
}

// Every rank but the victim has logged it.
bool all_name_it(FaultJob& job, int victim, const std::string& word) {
  for (int r = 0; r < job.processes().size(); ++r) {
    if (r == victim) continue;
    const std::string log = job.processes().log(r);
    const auto at = log.find(word);
    if (at == std::string::npos) return false;
    if (log.find("rank " + std::to_string(victim)) == std::string::npos) return false;
  }
  return true;
}

TEST_P(Stop, IsSuspectedAfterOneSecondAndLostAfterTwo) {
  const auto [transport, ranks] = GetParam();
  const int victim = ranks - 1;
  const auto names = shared_memory_names();
  {
    FaultJob job(ranks, transport, 200000, with_silence(Millis(2000)));
    ASSERT_TRUE(job.await_rounds(2));
    job.strike(victim, SIGSTOP);
    EXPECT_TRUE(await([&] { return all_name_it(job, victim, "suspect"); }, Millis(10000)));
    const Millis suspected((now_ns() - job.struck_at()) / 1000000);
    EXPECT_GE(suspected, Millis(800));
    EXPECT_LE(suspected, Millis(1900)) << "named too late";
    for (int r = 0; r < ranks; ++r) {
      if (r == victim) continue;
      EXPECT_EQ(job.processes().wait(r).code, 0) << job.processes().log(r);
      EXPECT_EQ(job.report(r).code, static_cast<int>(Code::kPeerLost)) << job.report(r).text;
      EXPECT_EQ(job.report(r).peer, victim) << job.report(r).text;
      EXPECT_GE(job.since_strike(r), Millis(1700)) << job.report(r).text;
      EXPECT_LE(job.since_strike(r), Millis(4000)) << job.report(r).text;
    }
    job.processes().signal(victim, SIGKILL);
    EXPECT_EQ(job.processes().wait(victim).signal, SIGKILL);
  }
  EXPECT_EQ(shared_memory_names(), names);
}

TEST_P(Stop, WakesInTimeAndNothingIsLost) {
  const auto [transport, ranks] = GetParam();
  FaultJob job(ranks, transport, 200000, with_silence(Millis(20000)));
  ASSERT_TRUE(job.await_rounds(2));
  job.strike(0, SIGSTOP);
  EXPECT_TRUE(await([&] { return all_name_it(job, 0, "suspect"); }, Millis(10000)));
  const int rounds = job.report(0).rounds;
  job.processes().signal(0, SIGCONT);
  EXPECT_TRUE(job.await_rounds(rounds + 3));
  job.end();
  job.processes().expect_success();
  for (int r = 0; r < ranks; ++r) {
    EXPECT_EQ(job.report(r).code, 0) << job.report(r).text;
    EXPECT_EQ(job.report(r).wrong, 0);
  }
}

// The stopped one must not blame the others for its own standstill.
TEST_P(Stop, VictimOfALongStopBlamesNobodyFirst) {
  const auto [transport, ranks] = GetParam();
  FaultJob job(ranks, transport, 200000, with_silence(Millis(2000)));
  ASSERT_TRUE(job.await_rounds(2));
  for (int r = 0; r < ranks; ++r) job.processes().signal(r, SIGSTOP);
  std::this_thread::sleep_for(Millis(2500));
  const int rounds = job.report(0).rounds;
  for (int r = 0; r < ranks; ++r) job.processes().signal(r, SIGCONT);
  EXPECT_TRUE(job.await_rounds(rounds + 3));
  job.end();
  job.processes().expect_success();
  for (int r = 0; r < ranks; ++r) EXPECT_EQ(job.report(r).code, 0) << job.report(r).text;
}

INSTANTIATE_TEST_SUITE_P(Over, Stop,
                         ::testing::Combine(::testing::Values("shm", "tcp"),
                                            ::testing::Values(2, 3)),
                         transport_and_ranks<::testing::TestParamInfo<Stop::ParamType>>);

}  // namespace
}  // namespace syncline::faults
