#include "wire/header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <initializer_list>
#include <random>

#include "kernels/crc32c.h"

namespace syncline::wire {
namespace {

using HeaderBytes = std::array<std::byte, kHeaderBytes>;
using ::testing::HasSubstr;

constexpr Expectation kExpected{0x1122334455667788, 0x99aabbccddeeff00};

Header sample() {
  Header header;
  header.type = Type::kNotify;
  header.flags = kFlagFingerprint | 0x5a;
  header.comm = 0x01020304;
  header.length = 0x00012345;
  header.view = kExpected.view;
  header.incarnation = kExpected.incarnation;
  header.op = 0x0807060504030201;
  header.step = 0xa1a2a3a4;
  header.segment = 0xb1b2b3b4;
  header.rail_seq = 0xc1c2c3c4;
  header.cum_ack = 0xd1d2d3d4;
  header.payload_crc = 0xe1e2e3e4;
  return header;
}

HeaderBytes encoded(const Header& header) {
  HeaderBytes bytes;
  encode(header, bytes.data());
  return bytes;
}

// Overwrites bytes and makes header_crc fit again, so that the check behind it is reached.
HeaderBytes forged(HeaderBytes bytes, std::size_t at, std::initializer_list<int> values) {
  for (const int value : values) bytes[at++] = static_cast<std::byte>(value);
  const std::uint32_t crc = kernels::crc32c(bytes.data(), 60);
  std::memcpy(bytes.data() + 60, &crc, 4);
  return bytes;
}

Verdict verdict_of(const HeaderBytes& bytes, const Expectation& expected = kExpected) {
  Header ignored;
  return decode(bytes.data(), expected, ignored);
}

TEST(Header, BytesAreAsDocumented) {
  const HeaderBytes bytes = encoded(sample());
  const unsigned char expected[60] = {
      0x53, 0x4c, 0x01, 0x03, 0x5a, 0x01, 0x00, 0x00, 0x04, 0x03, 0x02, 0x01, 0x45, 0x23, 0x01,
      0x00, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x00, 0xff, 0xee, 0xdd, 0xcc, 0xbb,
      0xaa, 0x99, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0xa4, 0xa3, 0xa2, 0xa1, 0xb4,
      0xb3, 0xb2, 0xb1, 0xc4, 0xc3, 0xc2, 0xc1, 0xd4, 0xd3, 0xd2, 0xd1, 0xe4, 0xe3, 0xe2, 0xe1};
  EXPECT_EQ(std::memcmp(bytes.data(), expected, sizeof expected), 0);
  std::uint32_t crc;
  std::memcpy(&crc, bytes.data() + 60, 4);
  EXPECT_EQ(crc, kernels::crc32c(bytes.data(), 60));
}

TEST(Header, DecodesWhatItEncodes) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 1000; ++i) {
    Header in;
    in.type = static_cast<Type>(1 + random() % 3);
    in.flags = static_cast<std::uint16_t>(random() & kKnownFlags);
    in.comm = static_cast<std::uint32_t>(random());
    in.length = static_cast<std::uint32_t>(16 + random() % (kPayloadBytesMax - 16 + 1));
    in.view = random();
    in.incarnation = random();
    in.op = random();
    in.step = static_cast<std::uint32_t>(random());
    in.segment = static_cast<std::uint32_t>(random());
    in.rail_seq = static_cast<std::uint32_t>(random());
    in.cum_ack = static_cast<std::uint32_t>(random());
    in.payload_crc = static_cast<std::uint32_t>(random());
    Header out;
    ASSERT_EQ(decode(encoded(in).data(), {in.view, in.incarnation}, out), Verdict::kOk);
    ASSERT_EQ(in, out);
  }
}

TEST(Header, PatchedAckStaysValid) {
  HeaderBytes bytes = encoded(sample());
  patch_ack(bytes.data(), 77);
  Header out;
  ASSERT_EQ(decode(bytes.data(), kExpected, out), Verdict::kOk);
  Header expected = sample();
  expected.cum_ack = 77;
  EXPECT_EQ(out, expected);
}

TEST(Header, EveryDamagedBitIsRefused) {
  const HeaderBytes good = encoded(sample());
  for (std::size_t bit = 0; bit < kHeaderBytes * 8; ++bit) {
    HeaderBytes bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    EXPECT_NE(verdict_of(bad), Verdict::kOk) << "bit " << bit;
  }
}

TEST(Header, RefusesWhatItDoesNotKnow) {
  const HeaderBytes good = encoded(sample());
  EXPECT_EQ(verdict_of(forged(good, 0, {'G', 'E'})), Verdict::kBadMagic);
  EXPECT_EQ(verdict_of(forged(good, 2, {9})), Verdict::kBadVersion);
  EXPECT_EQ(verdict_of(forged(good, 3, {0})), Verdict::kBadType);
  EXPECT_EQ(verdict_of(forged(good, 3, {10})), Verdict::kBadType);
  EXPECT_EQ(verdict_of(forged(good, 5, {0x03})), Verdict::kBadFlags);
  EXPECT_EQ(verdict_of(forged(good, 6, {1})), Verdict::kBadWireType);
  EXPECT_EQ(verdict_of(good, {kExpected.view, 5}), Verdict::kStaleIncarnation);
  EXPECT_EQ(verdict_of(good, {5, kExpected.incarnation}), Verdict::kStaleView);
}

TEST(Header, LengthsAreBoundedByTypeAndFlags) {
  const auto check = [](Type type, std::uint16_t flags, std::uint32_t length) {
    Header header = sample();
    header.type = type;
    header.flags = flags;
    header.length = length;
    return verdict_of(encoded(header));
  };
  EXPECT_EQ(check(Type::kData, 0, kPayloadBytesMax), Verdict::kOk);
  EXPECT_EQ(check(Type::kData, 0, kPayloadBytesMax + 1), Verdict::kBadLength);
  EXPECT_EQ(check(Type::kData, kFlagFingerprint, kPayloadBytesMax + 16), Verdict::kOk);
  EXPECT_EQ(check(Type::kData, kFlagFingerprint, kPayloadBytesMax + 17), Verdict::kBadLength);
  EXPECT_EQ(check(Type::kData, kFlagFingerprint, 15), Verdict::kBadLength);
  EXPECT_EQ(check(Type::kData, 0, 0xffffffff), Verdict::kBadLength);
  for (const Type bare : {Type::kAck, Type::kHeartbeat, Type::kGoodbye}) {
    EXPECT_EQ(check(bare, 0, 0), Verdict::kOk);
    EXPECT_EQ(check(bare, 0, 1), Verdict::kBadLength);
  }
}

TEST(Header, SentencesNameBothSides) {
  const HeaderBytes good = encoded(sample());
  const HeaderBytes newer = forged(good, 2, {9});
  const std::string version = explain(verdict_of(newer), newer.data(), kExpected);
  EXPECT_THAT(version, HasSubstr("version 9"));
  EXPECT_THAT(version, HasSubstr("version 1"));
  const std::string view = explain(Verdict::kStaleView, good.data(), {5, 6});
  EXPECT_THAT(view, HasSubstr(std::to_string(kExpected.view)));
  EXPECT_THAT(view, HasSubstr("view 5"));
  const std::string life = explain(Verdict::kStaleIncarnation, good.data(), {5, 6});
  EXPECT_THAT(life, HasSubstr("to 6"));
}

TEST(Header, FuzzedBytesNeverPass) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 20000; ++i) {
    HeaderBytes bytes = encoded(sample());
    for (int flips = 1 + static_cast<int>(random() % 8); flips > 0; --flips) {
      bytes[random() % kHeaderBytes] = static_cast<std::byte>(random());
    }
    Header out;
    if (decode(bytes.data(), kExpected, out) == Verdict::kOk) {
      ASSERT_EQ(bytes, encoded(sample()));
    }
  }
}

}  // namespace
}  // namespace syncline::wire
