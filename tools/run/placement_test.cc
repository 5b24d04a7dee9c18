#include "tools/run/placement.h"

#include <gtest/gtest.h>

namespace syncline::tools {
namespace {

using Hosts = std::vector<HostSlots>;
using Placed = std::vector<HostPlacement>;

TEST(HostList, ReadsSlotsAndAddresses) {
  const auto hosts = parse_host_list("alpha:2,beta,user@gamma:3,[fe80::1]:4,::1,alpha");
  ASSERT_TRUE(hosts.ok()) << hosts.status().to_string();
  EXPECT_EQ(hosts.value(),
            (Hosts{{"alpha", 3}, {"beta", 1}, {"user@gamma", 3}, {"fe80::1", 4}, {"::1", 1}}));
}

TEST(HostList, RefusesWhatIsNoHost) {
  for (const char* text :
       {"", "a,,b", "a:0", "a:x", "a:", "-oProxyCommand=x", "a b", "a;b", "[::1", "a:99999"}) {
    const auto hosts = parse_host_list(text);
    ASSERT_FALSE(hosts.ok()) << text;
    EXPECT_EQ(hosts.status().code(), Code::kInvalidArgument);
    EXPECT_EQ(hosts.status().message().find('\n'), std::string::npos);
  }
}

TEST(Hostfile, ReadsEveryForm) {
  const auto hosts = parse_hostfile(
      "# cluster\nalpha slots=2\n\nbeta:3 # fast\ngamma\n\tdelta slots=1 max_slots=4\n", "h");
  ASSERT_TRUE(hosts.ok()) << hosts.status().to_string();
  EXPECT_EQ(hosts.value(), (Hosts{{"alpha", 2}, {"beta", 3}, {"gamma", 1}, {"delta", 1}}));
}

TEST(Hostfile, NamesFileAndLine) {
  const auto hosts = parse_hostfile("alpha\nbeta slots=two\n", "cluster.txt");
  ASSERT_FALSE(hosts.ok());
  EXPECT_EQ(hosts.status().message().find("cluster.txt:2: "), 0u) << hosts.status().message();
  EXPECT_FALSE(parse_hostfile("# nobody\n", "f").ok());
  EXPECT_FALSE(parse_hostfile("a:2 slots=2\n", "f").ok());
  EXPECT_FALSE(parse_hostfile("a cores=2\n", "f").ok());
  EXPECT_FALSE(read_hostfile("/nowhere/hosts").ok());
}

TEST(Placement, FillsHostsInOrder) {
  const auto placed = place({{{"a", 2}, {"b", 2}, {"c", 2}}, 3, 0, 0});
  ASSERT_TRUE(placed.ok());
  EXPECT_EQ(placed.value(), (Placed{{"a", 0, 2}, {"b", 2, 1}}));
}

TEST(Placement, TakesAllSlotsWithoutANumber) {
  EXPECT_EQ(place({{{"a", 2}, {"b", 1}}, 0, 0, 0}).value(), (Placed{{"a", 0, 2}, {"b", 2, 1}}));
  EXPECT_EQ(place({{{"a", 2}, {"b", 1}}, 0, 3, 1}).value(), (Placed{{"a", 0, 3}}));
}

TEST(Placement, ThisMachineTakesAnyNumber) {
  EXPECT_EQ(place({{}, 7, 0, 0}).value(), (Placed{{"", 0, 7}}));
  EXPECT_EQ(place({{}, 0, 3, 1}).value(), (Placed{{"", 0, 3}}));
  EXPECT_EQ(place({{}, 0, 0, 0}).value(), (Placed{{"", 0, 1}}));
}

TEST(Placement, ServersGoToTheHostsInTurn) {
  Placed placed{{"a", 0, 2}, {"b", 2, 2}};
  ASSERT_TRUE(place_servers(placed, 3, {{"a", 9}, {"b", 9}}).ok());
  EXPECT_EQ(placed, (Placed{{"a", 0, 2, {0, 2}}, {"b", 2, 2, {1}}}));
  ASSERT_TRUE(place_servers(placed, 0, {}).ok());
}

TEST(Placement, ServersFillSlotsAlsoOfHostsWithoutRanks) {
  Placed placed{{"", 0, 3}};
  ASSERT_TRUE(place_servers(placed, 4, {{"c", 1}, {"", 2}, {"d", 1}}).ok());
  EXPECT_EQ(placed, (Placed{{"", 0, 3, {1, 3}}, {"c", 3, 0, {0}}, {"d", 3, 0, {2}}}));
  EXPECT_FALSE(place_servers(placed, 5, {{"c", 1}, {"", 2}, {"d", 1}}).ok());
}

TEST(Placement, RefusesContradictions) {
  EXPECT_FALSE(place({{{"a", 2}}, 3, 0, 0}).ok());
  EXPECT_FALSE(place({{{"a", 2}}, 0, 0, 2}).ok());
  EXPECT_FALSE(place({{}, 4, 0, 2}).ok());
  EXPECT_FALSE(place({{}, 4, 2, 0}).ok());
}

}  // namespace
}  // namespace syncline::tools
