#include "wire/envelope.h"

#include <gtest/gtest.h>

namespace syncline::wire {
namespace {

TEST(Envelope, LayoutIsPinned) {
  const Envelope envelope{DType::kI64, 0x01020304, 0x1122334455667788};
  const unsigned char expected[16] = {0x40, 8,    0,    0,    0x04, 0x03, 0x02, 0x01,
                                      0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11};
  const FingerprintBytes bytes = pack(envelope);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(std::to_integer<int>(bytes[i]), expected[i]) << i;
  EXPECT_EQ(unpack_envelope(bytes).value(), envelope);
  EXPECT_EQ(describe(envelope), "1234605616436508552 i64 elements");
  EXPECT_EQ(describe(Envelope{DType::kF32, 0, 1}), "1 f32 element");
}

TEST(Envelope, RefusesWhatIsNone) {
  const FingerprintBytes good = pack(Envelope{});
  ASSERT_TRUE(unpack_envelope(good).ok());
  const std::pair<std::size_t, int> changes[] = {
      {0, 0}, {1, kDTypeCount}, {2, 1}, {3, 1}, {7, 0x80}};
  for (const auto& [at, value] : changes) {
    FingerprintBytes bad = good;
    bad[at] = static_cast<std::byte>(value);
    EXPECT_EQ(unpack_envelope(bad).status().code(), Code::kCorrupt) << at;
  }
}

}  // namespace
}  // namespace syncline::wire
