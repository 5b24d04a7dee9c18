#include "wire/membership_messages.h"

#include <gtest/gtest.h>

#include <random>

namespace syncline::wire {
namespace {

using Bytes = std::vector<std::byte>;

Member member(int rank) {
  return {rank,
          "host-a",
          "boot/1",
          77u + static_cast<unsigned>(rank),
          4000,
          1,
          {"10.0.0.1:5", "[fd00::1]:6"},
          "seg"};
}

View view() { return {3, 99, {member(0), member(1), member(2)}}; }

template <class Decode>
void expect_exact(Bytes bytes, Decode decode) {
  ASSERT_TRUE(decode(bytes).ok());
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_EQ(decode(std::span(bytes).first(n)).status().code(), Code::kCorrupt) << n;
  }
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(decode(bytes).ok());
}

TEST(Membership, RoundTrip) {
  EXPECT_EQ(decode_join(encode_join(member(2))).value(), member(2));
  EXPECT_EQ(decode_table(encode_table(view())).value(), view());
  EXPECT_EQ(decode_waiting(encode_waiting("rank 2")).value(), "rank 2");
  const Refusal refusal = decode_refuse(encode_refuse({Code::kMismatch, 2, "twice"})).value();
  EXPECT_EQ(refusal.code, Code::kMismatch);
  EXPECT_EQ(refusal.peer, 2);
  EXPECT_EQ(refusal.text, "twice");
  EXPECT_EQ(membership_type(encode_plain(MembershipType::kAck)).value(), MembershipType::kAck);
}

TEST(Membership, LayoutIsPinned) {
  const Bytes bytes = encode_join({1, "h", "", 2, 3, 4, {"a"}, ""});
  const unsigned char expected[] = {1, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0,   0,  3,
                                    0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 'h', 0,  0,
                                    0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0,   'a'};
  ASSERT_EQ(bytes.size(), sizeof expected);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    EXPECT_EQ(std::to_integer<int>(bytes[i]), expected[i]) << i;
}

TEST(Membership, EveryTruncationAndAnExtraByteAreRefused) {
  expect_exact(encode_join(member(1)), [](auto bytes) { return decode_join(bytes); });
  expect_exact(encode_table(view()), [](auto bytes) { return decode_table(bytes); });
  expect_exact(encode_waiting("x"), [](auto bytes) { return decode_waiting(bytes); });
  expect_exact(encode_refuse({Code::kTimeout, -1, "x"}),
               [](auto bytes) { return decode_refuse(bytes); });
}

TEST(Membership, HugeCountsAllocateNothing) {
  Bytes bytes = encode_table({1, 2, {}});
  for (std::size_t i = bytes.size() - 4; i < bytes.size(); ++i) bytes[i] = std::byte{0xff};
  EXPECT_EQ(decode_table(bytes).status().code(), Code::kCorrupt);
}

TEST(Membership, LongTextsAreCutSoThatTheTableStaysBounded) {
  Member big = member(0);
  big.host_name = big.host_id = big.shm_name = std::string(5000, 'x');
  big.addresses.assign(50, std::string(500, 'y'));
  const Bytes bytes = encode_table({1, 2, {big, big}});
  EXPECT_LE(bytes.size(), table_bytes_max(2));
  EXPECT_TRUE(decode_table(bytes).ok());
}

TEST(Membership, RandomBytesNeverCrash) {
  std::mt19937 random(11);
  for (int round = 0; round < 20000; ++round) {
    Bytes bytes(random() % 100);
    for (auto& b : bytes) b = static_cast<std::byte>(random() % 8);
    (void)membership_type(bytes).ok();
    if (const auto m = decode_join(bytes); m.ok()) {
      EXPECT_EQ(encode_join(m.value()), bytes);
    }
    if (const auto m = decode_table(bytes); m.ok()) {
      EXPECT_EQ(encode_table(m.value()), bytes);
    }
    (void)decode_waiting(bytes).ok();
    (void)decode_refuse(bytes).ok();
  }
}

}  // namespace
}  // namespace syncline::wire
