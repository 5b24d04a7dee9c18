#include "tools/run/cpus.h"

#include <gtest/gtest.h>

namespace syncline::tools {
namespace {

using Cores = std::vector<int>;

TEST(Cpus, ThreadsPerRank) {
  EXPECT_EQ(threads_per_rank(2, 4), 1);
  EXPECT_EQ(threads_per_rank(8, 3), 2);
  EXPECT_EQ(threads_per_rank(1, 1), 1);
}

TEST(Cpus, ReadsLists) {
  EXPECT_EQ(parse_cpu_list("0-3,8\n"), (Cores{0, 1, 2, 3, 8}));
  EXPECT_EQ(parse_cpu_list("5"), (Cores{5}));
  EXPECT_EQ(parse_cpu_list(""), Cores{});
  EXPECT_EQ(parse_cpu_list("x,2"), Cores{2});
}

TEST(Cpus, ServersHaveCoresOfTheirOwnWhereThereAreFew) {
  const Cores allowed = {2, 3, 5};
  EXPECT_EQ(cores_of_server(0, 2, 2, allowed), (Cores{2}));
  EXPECT_EQ(cores_of_server(1, 2, 2, allowed), (Cores{3}));
  EXPECT_EQ(cores_of_server(4, 5, 2, allowed), (Cores{3}));
  EXPECT_TRUE(cores_of_server(0, 2, 1, allowed).empty()) << "room for all";
  EXPECT_TRUE(cores_of_server(0, 1, 9, allowed).empty()) << "nothing to share out";
}

TEST(Cpus, CoreBindingSharesOutTheAllowedCores) {
  const Cores allowed = {2, 3, 5, 7};
  EXPECT_EQ(cores_of_rank(Binding::kCore, 0, 2, allowed, {}), (Cores{2, 3}));
  EXPECT_EQ(cores_of_rank(Binding::kCore, 1, 2, allowed, {}), (Cores{5, 7}));
  EXPECT_TRUE(cores_of_rank(Binding::kCore, 0, 5, allowed, {}).empty());
  EXPECT_TRUE(cores_of_rank(Binding::kNone, 0, 2, allowed, {}).empty());
}

TEST(Cpus, NumaBindingSpreadsRanksOverNodes) {  // PERF-06
  const std::vector<Cores> nodes = {{0, 1, 2, 3}, {4, 5, 6, 7}};
  const Cores all = {0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(cores_of_rank(Binding::kNuma, 0, 4, all, nodes), nodes[0]);
  EXPECT_EQ(cores_of_rank(Binding::kNuma, 1, 4, all, nodes), nodes[0]);
  EXPECT_EQ(cores_of_rank(Binding::kNuma, 3, 4, all, nodes), nodes[1]);
  EXPECT_TRUE(
      cores_of_rank(Binding::kNuma, 0, 4, {4, 5}, nodes).empty());  // the container hides node 0
  EXPECT_TRUE(cores_of_rank(Binding::kNuma, 0, 4, all, {all}).empty());
}

TEST(Cpus, ThisMachineHasSome) {
  EXPECT_FALSE(allowed_cores().empty());
  EXPECT_GE(usable_cores(), 1);
  EXPECT_LE(usable_cores(), static_cast<int>(allowed_cores().size()));
}

}  // namespace
}  // namespace syncline::tools
