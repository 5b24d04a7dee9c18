#include "tools/run/supervisor.h"

#include <gtest/gtest.h>

namespace syncline::tools {
namespace {

using Ask = Supervisor::Ask;
constexpr Nanos kGrace = 10 * kSecond;

RankEnd exited(int code) { return {code, 0, false}; }
RankEnd killed(int signal) { return {0, signal, false}; }

TEST(Supervisor, AllZeroIsZero) {
  Supervisor job(2, kGrace, 0, 0);
  job.on_exit(0, exited(0), 1);
  EXPECT_EQ(job.poll(1), Ask::kNothing);
  EXPECT_FALSE(job.finished());
  job.on_exit(1, exited(0), 2);
  EXPECT_TRUE(job.finished());
  EXPECT_EQ(job.exit_code(), 0);
}

TEST(Supervisor, FirstFailureIsTheCauseAndOthersAreCollateral) {
  Supervisor job(4, kGrace, 0, 0);
  job.on_exit(2, exited(3), 5);
  EXPECT_EQ(job.poll(5), Ask::kTerminate);
  EXPECT_EQ(job.poll(6), Ask::kNothing);
  job.on_exit(1, killed(6), 7);
  job.on_exit(0, killed(15), 8);
  EXPECT_EQ(job.poll(5 + kGrace - 1), Ask::kNothing);
  EXPECT_EQ(job.poll(5 + kGrace), Ask::kKill);
  EXPECT_EQ(job.poll(6 + kGrace), Ask::kNothing);
  job.on_exit(3, killed(9), 7 + kGrace);
  EXPECT_TRUE(job.finished());
  EXPECT_EQ(job.exit_code(), 3);
  EXPECT_EQ(job.first_cause(), 2);
  EXPECT_TRUE(job.is_collateral(1));
  EXPECT_FALSE(job.is_collateral(2));
}

TEST(Supervisor, SignalsCountAs128AndMore) {
  Supervisor job(1, kGrace, 0, 0);
  job.on_exit(0, killed(9), 1);
  EXPECT_EQ(job.exit_code(), 137);
}

TEST(Supervisor, RequeueLetsOthersFinishFirst) {
  Supervisor job(2, kGrace, 0, 0);
  job.on_exit(0, exited(85), 0);
  EXPECT_EQ(job.poll(1), Ask::kNothing);
  EXPECT_EQ(job.poll(kGrace), Ask::kTerminate);
  EXPECT_EQ(job.poll(2 * kGrace), Ask::kKill);
  job.on_exit(1, killed(9), 2 * kGrace + 1);
  EXPECT_EQ(job.exit_code(), 85);
}

TEST(Supervisor, SecondInterruptKills) {
  Supervisor job(2, kGrace, 0, 0);
  job.on_interrupt(1);
  EXPECT_EQ(job.poll(1), Ask::kTerminate);
  job.on_interrupt(2);
  EXPECT_EQ(job.poll(2), Ask::kKill);
  job.on_exit(0, killed(9), 3);
  job.on_exit(1, killed(9), 3);
  EXPECT_EQ(job.exit_code(), 130);
  EXPECT_FALSE(job.first_cause().has_value());
}

TEST(Supervisor, SigtermKeepsAGracefulResult) {
  Supervisor clean(1, kGrace, 0, 0);
  clean.on_terminate(1);
  EXPECT_EQ(clean.poll(1), Ask::kTerminate);
  clean.on_exit(0, exited(0), 2);
  EXPECT_EQ(clean.exit_code(), 0);
  Supervisor again(2, kGrace, 0, 0);
  again.on_terminate(1);
  again.on_exit(0, killed(15), 2);
  again.on_exit(1, exited(85), 2);
  EXPECT_EQ(again.exit_code(), 85);
}

TEST(Supervisor, TimeLimit) {
  Supervisor job(1, kGrace, 60 * kSecond, 0);
  EXPECT_EQ(job.deadline(), 60 * kSecond);
  EXPECT_EQ(job.poll(60 * kSecond), Ask::kTerminate);
  EXPECT_EQ(job.poll(60 * kSecond + kGrace), Ask::kKill);
  EXPECT_FALSE(job.stuck(61 * kSecond + kGrace));
  EXPECT_TRUE(job.stuck(80 * kSecond + kGrace));
  EXPECT_EQ(job.exit_code(), 124);
}

TEST(Supervisor, ServersAreToldWhenTheRanksHaveEnded) {
  Supervisor job(2, kGrace, 60 * kSecond, 0, 2);
  job.on_exit(0, exited(0), 1);
  EXPECT_EQ(job.poll(1), Ask::kNothing);
  job.on_exit(1, exited(0), 2);
  EXPECT_FALSE(job.finished());
  EXPECT_EQ(job.poll(2), Ask::kTerminate);
  EXPECT_EQ(job.deadline(), 2 + kGrace);
  job.on_exit(2, exited(0), 3);
  job.on_exit(3, killed(15), 3);  // it never met a rank
  EXPECT_TRUE(job.finished());
  EXPECT_EQ(job.exit_code(), 0);
  EXPECT_EQ(job.stop(), Supervisor::Stop::kNone);
}

TEST(Supervisor, AServerThatDoesNotEndIsKilledAndFailsTheJob) {
  Supervisor job(1, kGrace, 0, 0, 1);
  job.on_exit(0, exited(0), 1);
  EXPECT_EQ(job.poll(1), Ask::kTerminate);
  EXPECT_EQ(job.poll(kGrace), Ask::kNothing);
  EXPECT_EQ(job.poll(1 + kGrace), Ask::kKill);
  job.on_exit(1, killed(9), 2 + kGrace);
  EXPECT_EQ(job.first_cause(), 1);
  EXPECT_TRUE(job.outlived_ranks(1));
  EXPECT_EQ(job.exit_code(), 137);
}

TEST(Supervisor, AServerThatDiesFirstIsTheCause) {
  Supervisor job(1, kGrace, 0, 0, 2);
  job.on_exit(1, exited(0), 1);  // it saw the rank's session end
  EXPECT_EQ(job.poll(1), Ask::kNothing);
  job.on_exit(2, killed(9), 2);
  EXPECT_EQ(job.poll(2), Ask::kTerminate);
  job.on_exit(0, killed(15), 3);
  EXPECT_TRUE(job.finished());
  EXPECT_EQ(job.first_cause(), 2);
  EXPECT_FALSE(job.outlived_ranks(2));
  EXPECT_TRUE(job.is_collateral(0));
  EXPECT_EQ(job.exit_code(), 137);
}

TEST(Supervisor, AfterAFailureServersHaveWhatIsLeftOfTheGrace) {
  Supervisor job(1, kGrace, 0, 0, 1);
  job.on_exit(0, exited(85), 0);
  EXPECT_EQ(job.poll(1), Ask::kTerminate) << "no rank is left that could save";
  EXPECT_EQ(job.poll(kGrace), Ask::kKill);
  job.on_exit(1, killed(9), kGrace + 1);
  EXPECT_EQ(job.exit_code(), 85);
}

TEST(Supervisor, ALostHostFails) {
  Supervisor job(2, kGrace, 0, 0);
  job.on_exit(0, exited(0), 1);
  job.on_exit(1, {0, 0, true}, 2);
  EXPECT_EQ(job.exit_code(), 1);
  EXPECT_EQ(job.first_cause(), 1);
}

}  // namespace
}  // namespace syncline::tools
