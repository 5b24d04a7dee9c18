#include "transport/tcp/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace syncline::transport::tcp {
namespace {

using ::testing::HasSubstr;

TEST(Address, ParsesWhatUsersWrite) {
  const auto check = [](const char* text, const char* host, int port) {
    const auto parsed = parse_host_port(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status().to_string();
    EXPECT_EQ(parsed->host, host);
    EXPECT_EQ(parsed->port, port);
    EXPECT_EQ(to_string(parsed.value()), text);
  };
  check("node7.cluster:29500", "node7.cluster", 29500);
  check("127.0.0.1:0", "127.0.0.1", 0);
  check("[::1]:65535", "::1", 65535);
  check("[fe80::1%eth0]:80", "fe80::1%eth0", 80);
}

TEST(Address, RefusesWhatIsUnclear) {
  for (const char* text : {"", "host", "host:", ":80", "host:65536", "host:-1", "host:8x", "::1:80",
                           "[::1]", "[::1]80", "[::1", "[]:80", "host: 80"}) {
    const auto parsed = parse_host_port(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(parsed.status().message(), HasSubstr("'" + std::string(text) + "'"));
    EXPECT_THAT(parsed.status().message(), HasSubstr("host:port"));
  }
}

TEST(Address, KnowsWhatItIs) {
  const Address v4 = parse_literal("127.9.9.9", 80).value();
  EXPECT_TRUE(v4.is_loopback());
  EXPECT_FALSE(v4.is_any());
  EXPECT_EQ(v4.to_string(), "127.9.9.9:80");
  EXPECT_EQ(v4.with_port(81).port(), 81);
  const Address v6 = parse_literal("::1", 80).value();
  EXPECT_TRUE(v6.is_loopback());
  EXPECT_EQ(v6.to_string(), "[::1]:80");
  EXPECT_EQ(v6.family(), AF_INET6);
  EXPECT_TRUE(parse_literal("::ffff:127.0.0.1", 1).value().is_loopback());
  EXPECT_TRUE(parse_literal("0.0.0.0", 1).value().is_any());
  EXPECT_TRUE(parse_literal("::", 1).value().is_any());
  EXPECT_FALSE(parse_literal("10.0.0.1", 1).value().is_loopback());
  EXPECT_FALSE(v4 == v6);
  EXPECT_EQ(v4, v4.with_port(81).with_port(80));
}

TEST(Address, LiteralsAskNoNameServer) {
  EXPECT_FALSE(parse_literal("localhost", 1).ok());
  EXPECT_FALSE(parse_literal("1.2.3", 1).ok() && parse_literal("", 1).ok());
}

TEST(Address, ResolvesLiteralsAndNamesThePortAndTheFailure) {
  const auto v6 = resolve({"::1", 29500});
  ASSERT_TRUE(v6.ok()) << v6.status().to_string();
  ASSERT_EQ(v6.value().size(), 1u);
  EXPECT_EQ(v6.value()[0].to_string(), "[::1]:29500");
  const auto bad = resolve({"no such host", 1});
  ASSERT_FALSE(bad.ok());
  EXPECT_THAT(bad.status().message(), HasSubstr("'no such host'"));
}

}  // namespace
}  // namespace syncline::transport::tcp
