#include "cluster/rank_env.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace syncline::cluster {
namespace {

using Vars = std::map<std::string, std::string>;

Result<RankEnv> discover(const Vars& vars) {
  return discover_rank([&](const std::string& name) -> std::optional<std::string> {
    const auto it = vars.find(name);
    if (it == vars.end()) return std::nullopt;
    return it->second;
  });
}

void expect_ranks(const Result<RankEnv>& result, const char* source, int rank, int size, int local,
                  int local_size) {
  ASSERT_TRUE(result.ok()) << result.status().to_string();
  EXPECT_EQ(result.value().source, source);
  EXPECT_EQ(result.value().rank, rank);
  EXPECT_EQ(result.value().world_size, size);
  EXPECT_EQ(result.value().local_rank, local);
  EXPECT_EQ(result.value().local_world_size, local_size);
}

void expect_refused(const Vars& vars, const std::string& text) {
  const auto result = discover(vars);
  ASSERT_FALSE(result.ok()) << text;
  EXPECT_EQ(result.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(result.status().message(), testing::HasSubstr(text));
  EXPECT_EQ(result.status().message().find('\n'), std::string::npos);
}

const Vars kTorchrun{{"RANK", "3"},
                     {"WORLD_SIZE", "4"},
                     {"LOCAL_RANK", "1"},
                     {"LOCAL_WORLD_SIZE", "2"},
                     {"MASTER_ADDR", "10.0.0.1"},
                     {"MASTER_PORT", "29500"},
                     {"TORCHELASTIC_RUN_ID", "job7"}};
const Vars kSlurm{{"SLURM_STEP_ID", "2"},
                  {"SLURM_JOB_ID", "77"},
                  {"SLURM_PROCID", "3"},
                  {"SLURM_STEP_NUM_TASKS", "7"},
                  {"SLURM_LOCALID", "1"},
                  {"SLURM_NODEID", "1"},
                  {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"},
                  {"SLURM_STEP_NODELIST", "n[01-03,07]"}};

Vars with(Vars base, const Vars& more) {
  for (const auto& [name, value] : more) base[name] = value;
  return base;
}

Vars without(Vars base, const std::string& name) {
  base.erase(name);
  return base;
}

TEST(RankEnv, NothingMeansSingle) {
  expect_ranks(discover({}), "single", 0, 1, 0, 1);
  EXPECT_TRUE(discover({}).value().warnings.empty());
  EXPECT_TRUE(discover({}).value().rendezvous.empty());
}

TEST(RankEnv, OwnSetWinsOverAll) {
  const Vars own{{"SYNCLINE_RANK", "1"},
                 {"SYNCLINE_WORLD_SIZE", "2"},
                 {"SYNCLINE_LOCAL_RANK", "1"},
                 {"SYNCLINE_LOCAL_WORLD_SIZE", "2"},
                 {"SYNCLINE_RENDEZVOUS", "tcp://h:1"},
                 {"SYNCLINE_RUN_ID", "abc"}};
  const auto result = discover(with(with(kTorchrun, kSlurm), own));
  expect_ranks(result, "SYNCLINE_*", 1, 2, 1, 2);
  EXPECT_EQ(result.value().rendezvous, "tcp://h:1");
  EXPECT_EQ(result.value().run_id, "abc");
  EXPECT_EQ(result.value().warnings.size(),
            1u);  // torchrun's; Slurm's job-level set is not complete
  EXPECT_TRUE(result.value().one_host());
}

TEST(RankEnv, Torchrun) {
  const auto result = discover(kTorchrun);
  expect_ranks(result, "torchrun", 3, 4, 1, 2);
  EXPECT_EQ(result.value().rendezvous, "tcp://10.0.0.1:29500");
  EXPECT_EQ(result.value().run_id, "job7");
  EXPECT_EQ(
      discover(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}})).value().rendezvous,
      "tcp://10.0.0.1:29501");
  EXPECT_EQ(discover(with(kTorchrun, {{"TORCHELASTIC_RUN_ID", "none"}})).value().run_id, "");
  EXPECT_EQ(discover(with(kTorchrun, {{"MASTER_ADDR", "fd00::1"}})).value().rendezvous,
            "tcp://[fd00::1]:29500");
}

TEST(RankEnv, OmpiInsideSlurmAllocation) {
  const auto result = discover({{"OMPI_COMM_WORLD_RANK", "1"},
                                {"OMPI_COMM_WORLD_SIZE", "2"},
                                {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                {"PMIX_NAMESPACE", "42.1"},
                                {"XDG_RUNTIME_DIR", "/run/user/7"},
                                {"SLURM_PROCID", "0"},
                                {"SLURM_NTASKS", "8"}});
  expect_ranks(result, "OMPI_*", 1, 2, 1, 2);
  EXPECT_EQ(result.value().rendezvous, "file:/run/user/7/syncline");
  EXPECT_EQ(result.value().run_id, "OMPI-42.1");
  ASSERT_EQ(result.value().warnings.size(), 1u);
  EXPECT_THAT(result.value().warnings[0], testing::HasSubstr("SLURM_PROCID=0"));
}

TEST(RankEnv, OmpiOverSeveralHostsNeedsARendezvous) {
  const Vars two_by_three{{"OMPI_COMM_WORLD_RANK", "4"},
                          {"OMPI_COMM_WORLD_SIZE", "6"},
                          {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                          {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"}};
  expect_refused(two_by_three, "SYNCLINE_RENDEZVOUS is not set");
  const auto result = discover(with(two_by_three, {{"MASTER_ADDR", "a"}, {"MASTER_PORT", "5000"}}));
  expect_ranks(result, "OMPI_*", 4, 6, 1, 3);
  EXPECT_EQ(result.value().rendezvous, "tcp://a:5000");
}

TEST(RankEnv, LoneVariablesRunSinglyWithAWarning) {
  const auto pmi = discover({{"PMI_SIZE", "8"}});
  expect_ranks(pmi, "single", 0, 1, 0, 1);
  ASSERT_EQ(pmi.value().warnings.size(), 1u);
  EXPECT_THAT(pmi.value().warnings[0], testing::HasSubstr("PMI_SIZE is set but PMI_RANK is not"));
  const auto shell =
      discover({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "5"}});
  expect_ranks(shell, "single", 0, 1, 0, 1);
  EXPECT_EQ(shell.value().warnings.size(), 1u);
  // The interactive step of salloc has a step id of its own kind.
  expect_ranks(
      discover({{"SLURM_STEP_ID", "4294967290"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}),
      "single", 0, 1, 0, 1);
}

TEST(RankEnv, SlurmStepWinsOverTheJob) {
  const auto result = discover(with(kSlurm, {{"SLURM_NTASKS", "8"}}));
  expect_ranks(result, "slurm step", 3, 7, 1, 2);
  EXPECT_EQ(result.value().rendezvous, "tcp://n01:21234");  // 20000 + (16 * 77 + 2)
  EXPECT_EQ(result.value().run_id, "slurm-77.2");
  expect_ranks(discover({{"SLURM_STEP_ID", "0"},
                         {"SLURM_JOB_ID", "1"},
                         {"SLURM_PROCID", "1"},
                         {"SLURM_NTASKS", "8"},
                         {"SLURM_STEP_NUM_TASKS", "2"},
                         {"SLURM_LOCALID", "0"},
                         {"SLURM_NODEID", "1"},
                         {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                         {"SLURM_STEP_NODELIST", "a,b"}}),
               "slurm step", 1, 2, 0, 1);
}

TEST(RankEnv, SlurmWithoutLocalId) {
  const Vars lacking = without(kSlurm, "SLURM_LOCALID");
  expect_ranks(discover(with(lacking, {{"SLURM_GTIDS", "2,3"}})), "slurm step", 3, 7, 1, 2);
  expect_refused(lacking, "SLURM_LOCALID is not set");
  expect_refused(with(lacking, {{"SLURM_GTIDS", "0,1"}}), "does not list SLURM_PROCID=3");
  expect_ranks(discover({{"SLURM_STEP_ID", "0"},
                         {"SLURM_JOB_ID", "1"},
                         {"SLURM_PROCID", "1"},
                         {"SLURM_STEP_NUM_TASKS", "2"},
                         {"SLURM_STEP_TASKS_PER_NODE", "2"},
                         {"SLURM_STEP_NODELIST", "a"}}),
               "slurm step", 1, 2, 1, 2);
}

TEST(RankEnv, Pmi) {
  expect_ranks(discover({{"PMI_RANK", "1"},
                         {"PMI_SIZE", "2"},
                         {"MPI_LOCALRANKID", "1"},
                         {"MPI_LOCALNRANKS", "2"}}),
               "PMI_*", 1, 2, 1, 2);
}

TEST(RankEnv, BadValuesNameTheVariable) {
  const Vars own{
      {"SYNCLINE_RANK", "0"}, {"SYNCLINE_WORLD_SIZE", "4"}, {"SYNCLINE_RENDEZVOUS", "tcp://h:1"}};
  ASSERT_TRUE(discover(own).ok());
  expect_refused(with(own, {{"SYNCLINE_RANK", "4"}}), "SYNCLINE_RANK=4 is out of range 0..3");
  expect_refused(with(own, {{"SYNCLINE_RANK", "-1"}}), "SYNCLINE_RANK=-1");
  expect_refused(with(own, {{"SYNCLINE_WORLD_SIZE", "0"}}),
                 "SYNCLINE_WORLD_SIZE=0 is out of range");
  expect_refused(with(own, {{"SYNCLINE_RANK", "two"}}), "SYNCLINE_RANK='two' is not a number");
  expect_refused(with(own, {{"SYNCLINE_RANK", "1x"}}), "SYNCLINE_RANK='1x' is not a number");
  expect_refused(with(own, {{"SYNCLINE_LOCAL_RANK", "9"}}), "SYNCLINE_LOCAL_RANK=9");
  expect_refused(with(own, {{"SYNCLINE_RENDEZVOUS_FD", "x"}}), "SYNCLINE_RENDEZVOUS_FD='x'");
  expect_refused(without(own, "SYNCLINE_RANK"),
                 "SYNCLINE_WORLD_SIZE is set but SYNCLINE_RANK is not");
  expect_refused(without(own, "SYNCLINE_RENDEZVOUS"), "SYNCLINE_RENDEZVOUS is not set");
  expect_refused({{"RANK", "1"}}, "RANK is set but WORLD_SIZE is not");
  expect_refused(without(kTorchrun, "MASTER_ADDR"), "MASTER_ADDR is not set");
  expect_refused(without(kTorchrun, "MASTER_PORT"), "MASTER_PORT is not set");
  expect_refused(with(kTorchrun, {{"MASTER_PORT", "70000"}}), "MASTER_PORT=70000");
  expect_refused(without(kSlurm, "SLURM_PROCID"), "SLURM_PROCID");
  expect_refused(with(kSlurm, {{"SLURM_STEP_NODELIST", "n[1-"}}), "SLURM_STEP_NODELIST");
  expect_refused(with(kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", "2(y"}}), "SLURM_STEP_TASKS_PER_NODE");
}

TEST(RankEnv, RanksOfAJobWithServers) {
  const Vars own{{"SYNCLINE_RANK", "1"},       {"SYNCLINE_WORLD_SIZE", "3"},
                 {"SYNCLINE_LOCAL_RANK", "1"}, {"SYNCLINE_LOCAL_WORLD_SIZE", "3"},
                 {"SYNCLINE_SERVERS", "2"},    {"SYNCLINE_RENDEZVOUS", "tcp://h:1"}};
  const auto result = discover(own);
  expect_ranks(result, "SYNCLINE_*", 1, 3, 1, 3);
  EXPECT_EQ(result->servers, 2);
  EXPECT_EQ(result->server, -1);
  EXPECT_EQ(result->processes(), 5);
  EXPECT_EQ(result->number(), 1);
  EXPECT_EQ(result->name(), "rank 1");
  EXPECT_FALSE(result->one_host()) << "servers may be elsewhere";
  EXPECT_TRUE(discover(with(own, {{"SYNCLINE_SERVERS", "0"}}))->one_host());
  EXPECT_EQ(discover(with(kTorchrun, {{"SYNCLINE_SERVERS", "2"}}))->servers, 2);
}

TEST(RankEnv, OneRankWithAServerNeedsAMeetingPlace) {
  expect_refused({{"SYNCLINE_SERVERS", "1"}}, "SYNCLINE_RENDEZVOUS is not set: rank 0 of 1");
  const auto result = discover({{"SYNCLINE_SERVERS", "1"}, {"SYNCLINE_RENDEZVOUS", "tcp://h:1"}});
  expect_ranks(result, "single", 0, 1, 0, 1);
  EXPECT_EQ(result->rendezvous, "tcp://h:1");
  EXPECT_FALSE(result->one_host());
}

TEST(RankEnv, Server) {
  const Vars server{{"SYNCLINE_SERVER_ID", "1"},     {"SYNCLINE_SERVERS", "2"},
                    {"SYNCLINE_WORLD_SIZE", "3"},    {"SYNCLINE_RENDEZVOUS", "tcp://h:1"},
                    {"SYNCLINE_RENDEZVOUS_FD", "7"}, {"SYNCLINE_RUN_ID", "abc"}};
  const auto result = discover(server);
  expect_ranks(result, "SYNCLINE_*", -1, 3, -1, -1);
  EXPECT_EQ(result->server, 1);
  EXPECT_EQ(result->number(), 4);
  EXPECT_EQ(result->name(), "server 1");
  EXPECT_EQ(result->run_id, "abc");
  EXPECT_EQ(result->rendezvous_fd, -1) << "rank 0's";
  EXPECT_FALSE(discover(with(server, {{"SYNCLINE_WORLD_SIZE", "1"}}))->one_host());
  // Of torchrun's set it takes what describes the job.
  const auto beside =
      discover(with(kTorchrun, {{"SYNCLINE_SERVER_ID", "0"}, {"SYNCLINE_SERVERS", "1"}}));
  expect_ranks(beside, "torchrun", -1, 4, -1, -1);
  EXPECT_EQ(beside->rendezvous, "tcp://10.0.0.1:29500");
  EXPECT_TRUE(beside->warnings.empty());

  expect_refused(without(server, "SYNCLINE_SERVERS"), "SYNCLINE_SERVERS is not");
  expect_refused(without(server, "SYNCLINE_WORLD_SIZE"), "SYNCLINE_WORLD_SIZE is not");
  expect_refused(without(server, "SYNCLINE_RENDEZVOUS"),
                 "SYNCLINE_RENDEZVOUS is not set: server 1 of 2");
  expect_refused(with(server, {{"SYNCLINE_RANK", "0"}}), "SYNCLINE_RANK and SYNCLINE_SERVER_ID");
  expect_refused(with(server, {{"SYNCLINE_SERVER_ID", "2"}}), "SYNCLINE_SERVER_ID=2");
  expect_refused(with(server, {{"SYNCLINE_SERVER_ID", "x"}}), "SYNCLINE_SERVER_ID='x'");
  expect_refused(with(server, {{"SYNCLINE_SERVERS", "-1"}}), "SYNCLINE_SERVERS=-1");
  expect_refused(with(server, {{"SYNCLINE_WORLD_SIZE", "65534"}}), "SYNCLINE_SERVERS=2");
}

TEST(RankEnv, HalfASetIsSkippedWhenALaterOneIsComplete) {
  const auto result = discover(with(without(kSlurm, "x"), {{"WORLD_SIZE", "2"}}));
  expect_ranks(result, "slurm step", 3, 7, 1, 2);
}

}  // namespace
}  // namespace syncline::cluster
