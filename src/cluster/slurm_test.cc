#include "cluster/slurm.h"

#include <gtest/gtest.h>

namespace syncline::cluster {
namespace {

using Hosts = std::vector<std::string>;

TEST(Slurm, TaskCounts) {
  EXPECT_EQ(expand_tasks_per_node("1(x2)").value(), (std::vector<int>{1, 1}));
  EXPECT_EQ(expand_tasks_per_node("2(x3),1").value(), (std::vector<int>{2, 2, 2, 1}));
  EXPECT_EQ(expand_tasks_per_node("8").value(), (std::vector<int>{8}));
  for (const char* bad : {"", "x", "2(x", "2(x0)", "2(x3", "2(3)", "1,,2", "-1", "1(x99999999999)",
                          "2(x3),", "(x2)"}) {
    EXPECT_EQ(expand_tasks_per_node(bad).status().code(), Code::kInvalidArgument) << bad;
  }
}

TEST(Slurm, HostLists) {
  EXPECT_EQ(expand_nodelist("n[01-03,07],gpu-a").value(),
            (Hosts{"n01", "n02", "n03", "n07", "gpu-a"}));
  EXPECT_EQ(expand_nodelist("n[8-11]").value(), (Hosts{"n8", "n9", "n10", "n11"}));
  EXPECT_EQ(expand_nodelist("r[1-2]n[1-2]x").value(), (Hosts{"r1n1x", "r1n2x", "r2n1x", "r2n2x"}));
  EXPECT_EQ(expand_nodelist("10.0.0.[1-2]").value(), (Hosts{"10.0.0.1", "10.0.0.2"}));
  for (const char* bad : {"", ",", "a,,b", "n[1-", "n]1", "n[3-1]", "n[a-b]", "n[]",
                          "n[1-99999999]", "n[1-60000],m[1-60000]", "n[0-999]m[0-999]"}) {
    EXPECT_EQ(expand_nodelist(bad).status().code(), Code::kInvalidArgument) << bad;
  }
}

TEST(Slurm, PortsLieBelowTheEphemeralRange) {
  EXPECT_EQ(slurm_port(0, 0), 20000);
  EXPECT_EQ(slurm_port(1, 2), 20018);
  for (std::uint64_t job = 0; job < 100000; job += 37) {
    EXPECT_GE(slurm_port(job, job % 7), 20000);
    EXPECT_LT(slurm_port(job, job % 7), 32000);
  }
}

}  // namespace
}  // namespace syncline::cluster
