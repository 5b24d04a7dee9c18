#include "tools/cli/units.h"

#include <gtest/gtest.h>

#include "tools/cli/exit_code.h"

namespace syncline::tools {
namespace {

TEST(Units, Bytes) {
  EXPECT_EQ(parse_bytes("4096").value(), 4096u);
  EXPECT_EQ(parse_bytes("1K").value(), 1024u);
  EXPECT_EQ(parse_bytes("25MiB").value(), 25u << 20);
  EXPECT_EQ(parse_bytes("25M").value(), 25u << 20);
  EXPECT_EQ(parse_bytes("1.5k").value(), 1536u);
  EXPECT_EQ(parse_bytes("2GB").value(), std::uint64_t{2} << 30);
  EXPECT_EQ(parse_bytes("0").value(), 0u);
  for (const char* text : {"", "K", "-1", "1Q", "1KK", "12 M", "nan", "inf", "9999999T"}) {
    EXPECT_FALSE(parse_bytes(text).ok()) << text;
  }
}

TEST(Units, Durations) {
  EXPECT_EQ(parse_duration("10s").value(), 10 * kSecond);
  EXPECT_EQ(parse_duration("500ms").value(), 500 * kMillisecond);
  EXPECT_EQ(parse_duration("2m").value(), 120 * kSecond);
  EXPECT_EQ(parse_duration("3").value(), 3 * kSecond);
  EXPECT_EQ(parse_duration("0.25s").value(), kSecond / 4);
  for (const char* text : {"", "s", "-1s", "soon", "1d", "1e99h"})
    EXPECT_FALSE(parse_duration(text).ok()) << text;
}

TEST(Units, Integers) {
  EXPECT_EQ(parse_int("7", 1, 9, "n").value(), 7);
  for (const char* text : {"0", "10", "7x", "", "99999999999999"})
    EXPECT_FALSE(parse_int(text, 1, 9, "n").ok()) << text;
}

TEST(ExitCodes, FollowTheCode) {
  EXPECT_EQ(exit_code_of(Status()), 0);
  EXPECT_EQ(exit_code_of(Status(Code::kInvalidArgument, "")), 2);
  EXPECT_EQ(exit_code_of(Status(Code::kExhausted, "")), 3);
  EXPECT_EQ(exit_code_of(Status(Code::kTimeout, "")), 124);
  EXPECT_EQ(exit_code_of(Status(Code::kPeerLost, "")), 1);
}

}  // namespace
}  // namespace syncline::tools
