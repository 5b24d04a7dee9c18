#include "wire/messages.h"

#include <gtest/gtest.h>

#include <random>

namespace syncline::wire {
namespace {

std::span<const std::byte> head(const std::vector<std::byte>& bytes, std::size_t count) {
  return std::span(bytes).first(count);
}

TEST(Messages, AbortLayoutIsPinned) {
  const auto bytes = encode(AbortMessage{Code::kPeerLost, 3, 1, "hi"});
  const unsigned char expected[] = {7, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 'h', 'i'};
  ASSERT_EQ(bytes.size(), sizeof expected);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    EXPECT_EQ(std::to_integer<int>(bytes[i]), expected[i]);
}

TEST(Messages, RoundTrip) {
  const AbortMessage abort{Code::kMismatch, -1, 2, "rank 0 said all_reduce"};
  EXPECT_EQ(decode_abort(encode(abort)).value(), abort);
  const NotifyMessage notify{NotifyKind::kStopRequested, 4, 0xfedcba9876543210, ""};
  EXPECT_EQ(decode_notify(encode(notify)).value(), notify);
}

TEST(Messages, LongTextsAreCutToTheLimit) {
  const auto decoded =
      decode_abort(encode(AbortMessage{Code::kTimeout, 0, 0, std::string(5000, 'x')}));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded.value().text.size(), kTextBytesMax);
}

TEST(Messages, EveryTruncationAndAnExtraByteAreRefused) {
  auto abort = encode(AbortMessage{Code::kTimeout, 1, 2, "some text"});
  auto notify = encode(NotifyMessage{NotifyKind::kPeerLost, 1, 2, "some text"});
  for (std::size_t n = 0; n < abort.size(); ++n) EXPECT_FALSE(decode_abort(head(abort, n)).ok());
  for (std::size_t n = 0; n < notify.size(); ++n) EXPECT_FALSE(decode_notify(head(notify, n)).ok());
  abort.push_back(std::byte{0});
  notify.push_back(std::byte{0});
  EXPECT_FALSE(decode_abort(abort).ok());
  EXPECT_FALSE(decode_notify(notify).ok());
}

TEST(Messages, InvalidEnumeratorsAndHugeLengthsAreRefused) {
  auto abort = encode(AbortMessage{Code::kTimeout, 1, 2, ""});
  for (const int code : {0, 13, 255}) {
    abort[0] = static_cast<std::byte>(code);
    EXPECT_EQ(decode_abort(abort).status().code(), Code::kCorrupt);
  }
  auto notify = encode(NotifyMessage{NotifyKind::kPeerLost, 1, 2, ""});
  for (int i = 0; i < 4; ++i) notify[notify.size() - 1 - i] = std::byte{0xff};
  EXPECT_EQ(decode_notify(notify).status().code(), Code::kCorrupt);
}

TEST(Messages, RandomBytesNeverCrashAndDecodedOnesEncodeBack) {
  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> bytes(random() % 64);
    for (auto& b : bytes) b = static_cast<std::byte>(random() % 16);
    if (const auto m = decode_abort(bytes); m.ok()) {
      EXPECT_EQ(encode(m.value()), bytes);
    }
    if (const auto m = decode_notify(bytes); m.ok()) {
      EXPECT_EQ(encode(m.value()), bytes);
    }
  }
}

}  // namespace
}  // namespace syncline::wire
