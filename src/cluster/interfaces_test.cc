// NET-04; with real interfaces: tests/net/interfaces_test.py.
#include "cluster/interfaces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace syncline::cluster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Interface make(const std::string& name, const std::string& address) {
  Interface each;
  each.name = name;
  each.address = transport::tcp::parse_literal(address, 0).value();
  each.loopback = name == "lo";
  each.link_local = address.rfind("fe80", 0) == 0;
  return each;
}

const std::vector<Interface> kHost{make("lo", "127.0.0.1"),  make("docker0", "172.17.0.1"),
                                   make("eth0", "10.0.0.1"), make("eth0.17", "10.0.17.1"),
                                   make("lo", "::1"),        make("eth0", "fd00::1"),
                                   make("eth0", "fe80::1")};

std::vector<std::string> chosen(const std::string& filter,
                                const std::vector<Interface>& all = kHost) {
  std::vector<std::string> hosts;
  const auto result = select_interfaces(all, InterfaceFilter::parse(filter).value());
  if (!result.ok()) return {result.status().message()};
  for (const auto& each : result.value()) hosts.push_back(each.address.host());
  return hosts;
}

TEST(Interfaces, DefaultNeverTakesLoopbackOrDocker) {
  EXPECT_THAT(chosen(""), ElementsAre("10.0.0.1", "fd00::1", "10.0.17.1"));
}

TEST(Interfaces, PrefixExactAndExclusion) {
  EXPECT_THAT(chosen("eth0"), ElementsAre("10.0.0.1", "fd00::1", "10.0.17.1"));
  EXPECT_THAT(chosen("=eth0"), ElementsAre("10.0.0.1", "fd00::1"));
  EXPECT_THAT(chosen("=eth0.17,docker0"), ElementsAre("172.17.0.1", "10.0.17.1"));
  EXPECT_THAT(chosen("^docker0"), ElementsAre("10.0.0.1", "fd00::1", "10.0.17.1"));
  EXPECT_THAT(chosen("^lo,docker,eth0."), ElementsAre("10.0.0.1", "fd00::1"));
  EXPECT_THAT(chosen("^=eth0"), ElementsAre("10.0.17.1"));
  EXPECT_THAT(chosen("^lo"), ElementsAre("10.0.0.1", "fd00::1", "10.0.17.1"));
  EXPECT_THAT(chosen("^eth"), ElementsAre("172.17.0.1"));
  EXPECT_THAT(chosen("docker0"), ElementsAre("172.17.0.1"));
  EXPECT_THAT(chosen("=lo"), ElementsAre("127.0.0.1", "::1"));
}

TEST(Interfaces, FullNamesComeFirst) {
  const std::vector<Interface> host{make("eth0.17", "10.0.17.1"), make("eth0", "10.0.0.1")};
  EXPECT_THAT(chosen("eth0", host), ElementsAre("10.0.0.1", "10.0.17.1"));
  EXPECT_THAT(chosen("eth", host), ElementsAre("10.0.17.1", "10.0.0.1"));
}

TEST(Interfaces, DockerOnlyWhenNothingElseIsThere) {
  EXPECT_THAT(chosen("", {kHost[0], kHost[1]}), ElementsAre("172.17.0.1"));
  EXPECT_THAT(chosen("", {make("lo", "127.0.0.1"), make("eth0", "fe80::1")}),
              ElementsAre("fe80::1"));
}

TEST(Interfaces, NothingLeftNamesWhatIsThere) {
  EXPECT_THAT(chosen("ib0"),
              ElementsAre(HasSubstr("matches 'ib0'; there are: lo 127.0.0.1, docker0")));
  EXPECT_THAT(chosen("", {kHost[0]}),
              ElementsAre(HasSubstr("no interface that reaches other hosts")));
}

TEST(Interfaces, DownOnesAreSkipped) {
  Interface down = make("eth1", "10.1.0.1");
  down.up = false;
  EXPECT_THAT(chosen("eth1", {down}), ElementsAre(HasSubstr("no interface")));
}

TEST(Interfaces, EmptyNamesAreRefused) {
  for (const char* bad : {"^", "=", "^=", "a,,b", ",a", "a,"}) {
    EXPECT_EQ(InterfaceFilter::parse(bad).status().code(), Code::kInvalidArgument) << bad;
  }
}

TEST(Interfaces, OptionThenOwnThenForeignVariables) {
  std::map<std::string, std::string> vars{{"GLOO_SOCKET_IFNAME", "g"}};
  const EnvLookup lookup = [&](const std::string& name) -> std::optional<std::string> {
    const auto it = vars.find(name);
    if (it == vars.end()) return std::nullopt;
    return it->second;
  };
  EXPECT_EQ(interface_filter("", lookup).value().text(), "g");
  vars["NCCL_SOCKET_IFNAME"] = "n";
  EXPECT_EQ(interface_filter("", lookup).value().text(), "n");
  vars["SYNCLINE_SOCKET_IFNAME"] = "s";
  EXPECT_EQ(interface_filter("", lookup).value().text(), "s");
  EXPECT_EQ(interface_filter("o", lookup).value().text(), "o");
}

TEST(Interfaces, RealHostHasLoopback) {
  const auto all = list_interfaces();
  ASSERT_TRUE(all.ok());
  EXPECT_TRUE(std::any_of(all.value().begin(), all.value().end(), [](const Interface& each) {
    return each.loopback && each.address.is_loopback();
  }));
  EXPECT_EQ(interface_name(transport::tcp::parse_literal("127.0.0.1", 80).value()), "lo");
  EXPECT_EQ(interface_name(transport::tcp::parse_literal("192.0.2.1", 80).value()), "");
}

}  // namespace
}  // namespace syncline::cluster
