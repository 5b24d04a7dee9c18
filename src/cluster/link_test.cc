#include "cluster/link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <random>

#include "cluster/link_test_end.h"

namespace syncline::cluster {
namespace {

using ::testing::HasSubstr;
using transport::SendResult;
using wire::Type;

constexpr Nanos kMs = kMillisecond;
const std::size_t kWindow = LinkConfig().window;

TEST(Link, DeliversInOrderThroughAnyCuts) {
  std::mt19937_64 random(3);
  LinkTestEnd a(0, 1);
  LinkTestEnd b(1, 0);
  std::uint64_t sent = 0;
  std::int64_t seen = 0;
  while (seen < 2000) {
    while (random() % 4 != 0 && a.send(sent, random() % 3000) == SendResult::kAccepted) ++sent;
    std::vector<std::byte> bytes = a.take_output(0, 1 + random() % 5000);
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t part = std::min<std::size_t>(bytes.size() - at, 1 + random() % 4000);
      const auto begin = bytes.begin() + static_cast<long>(at);
      b.receive({begin, begin + static_cast<long>(part)}, 0);
      at += part;
    }
    for (std::int64_t op; (op = b.pop(0)) >= 0; ++seen) ASSERT_EQ(op, seen);
    a.receive(b.take_output(0), 0);
  }
  EXPECT_TRUE(a.link.status().ok());
  EXPECT_TRUE(b.link.status().ok());
}

TEST(Link, AcknowledgementsRideInData) {
  LinkTestEnd a(0, 1);
  LinkTestEnd b(1, 0);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const Nanos now = static_cast<Nanos>(i) * 10 * kMicrosecond;
    ASSERT_EQ(a.send(i, 1024), SendResult::kAccepted);
    exchange(a, b, now);
    ASSERT_EQ(b.pop(now), static_cast<std::int64_t>(i));
    ASSERT_EQ(b.send(i, 1024), SendResult::kAccepted);
    exchange(a, b, now);
    ASSERT_EQ(a.pop(now), static_cast<std::int64_t>(i));
    a.link.tick(now);
    b.link.tick(now);
    ASSERT_LE(a.link.stored_bytes(), 2u * 1100);
  }
  EXPECT_EQ(a.count(Type::kAck) + b.count(Type::kAck), 0);
}

TEST(Link, LoneAcknowledgementAfterOneMillisecond) {
  LinkTestEnd a(0, 1);
  LinkTestEnd b(1, 0);
  a.send(0, 100);
  exchange(a, b, 0);
  b.link.tick(5 * kMs);
  exchange(a, b, 5 * kMs);
  EXPECT_EQ(a.count(Type::kAck), 0) << "staged is not consumed";
  EXPECT_EQ(b.pop(5 * kMs), 0);
  b.link.tick(5 * kMs + kMs / 2);
  exchange(a, b, 5 * kMs + kMs / 2);
  EXPECT_EQ(a.count(Type::kAck), 0);
  EXPECT_GT(a.link.stored_bytes(), 0u);
  b.link.tick(6 * kMs);
  exchange(a, b, 6 * kMs);
  EXPECT_EQ(a.count(Type::kAck), 1);
  EXPECT_EQ(a.link.stored_bytes(), 0u);
  b.link.tick(9 * kMs);
  exchange(a, b, 9 * kMs);
  EXPECT_EQ(a.count(Type::kAck), 1) << "once is enough";
}

TEST(Link, WindowBoundsTheStoreAndOpensAtHalf) {
  constexpr std::size_t kBytes = 128 * 1024;
  LinkTestEnd a(0, 1);
  LinkTestEnd b(1, 0);
  std::uint64_t sent = 0;
  while (a.send(sent, kBytes) == SendResult::kAccepted) ++sent;
  EXPECT_EQ(sent, kWindow / (kBytes + wire::kHeaderBytes));
  EXPECT_LE(a.link.stored_bytes(), kWindow);
  exchange(a, b, 0);
  EXPECT_EQ(a.send(sent, kBytes), SendResult::kWouldBlock);
  for (std::uint64_t i = 0; a.count(Type::kAck) == 0; ++i) {
    ASSERT_EQ(b.pop(0), static_cast<std::int64_t>(i));
    exchange(a, b, 0);
    EXPECT_LE((i + 1) * kBytes, kWindow / 2 + kBytes);
  }
  EXPECT_LE(a.link.stored_bytes(), kWindow / 2 + kBytes);
  EXPECT_EQ(a.send(sent, kBytes), SendResult::kAccepted);
}

TEST(Link, RepeatedFramesAreDroppedAndAcknowledgedAgain) {
  LinkTestEnd a(0, 1);
  LinkTestEnd b(1, 0);
  a.send(0, 50);
  const auto bytes = a.take_output(0);
  b.receive(bytes, 0);
  EXPECT_EQ(b.pop(0), 0);
  b.take_output(0);
  EXPECT_FALSE(b.link.has_output());
  b.receive(bytes, 0);
  EXPECT_EQ(b.pop(0), -1);
  EXPECT_TRUE(b.link.status().ok());
  a.receive(b.take_output(0), 0);
  EXPECT_EQ(a.count(Type::kAck), 1);
  EXPECT_EQ(a.link.stored_bytes(), 0u);
}

// No new connection can come: nothing else is left.
TEST(Link, DamageAndForeignFramesEndALinkThatCannotHeal) {
  const auto outcome = [](auto damage) {
    LinkTestEnd a(0, 1);
    LinkTestEnd b(1, 0);
    a.send(0, 50);
    std::vector<std::byte> first = a.take_output(0);
    a.send(1, 50);
    std::vector<std::byte> second = a.take_output(0);
    damage(first, second);
    first.insert(first.end(), second.begin(), second.end());
    b.receive(first, 0);
    EXPECT_EQ(b.link.status().code(), Code::kCorrupt);
    EXPECT_EQ(b.link.status().peer(), 0);
    EXPECT_TRUE(b.link.take_actions().disconnect);
    EXPECT_EQ(b.send(0, 1), SendResult::kClosed);
    EXPECT_FALSE(b.link.has_output());
    return b.link.status().message();
  };
  EXPECT_THAT(outcome([](auto& first, auto&) { first[70] ^= std::byte{1}; }),
              HasSubstr("payload checksum of frame 1"));
  EXPECT_THAT(outcome([](auto&, auto& second) { second[20] ^= std::byte{1}; }),
              HasSubstr("header checksum"));
  EXPECT_THAT(outcome([](auto& first, auto&) { first[2] = std::byte{7}; }), HasSubstr("version 7"));
  EXPECT_THAT(outcome([](auto& first, auto&) { wire::patch_ack(first.data(), 9); }),
              HasSubstr("never sent"));
}

TEST(Link, OtherIncarnationsEndAndOtherViewsAreFenced) {
  LinkConfig other;
  other.view = 1;
  LinkTestEnd a(0, 1, other);
  LinkTestEnd b(1, 0);  // view 0
  a.send(0, 50);
  a.send(1, 50);
  b.receive(a.take_output(0), 0);
  EXPECT_EQ(b.pop(0), -1);
  EXPECT_TRUE(b.link.status().ok());
  EXPECT_THAT(b.link.take_actions().log, HasSubstr("view 1"));
  EXPECT_FALSE(b.link.has_actions()) << "said once";

  LinkConfig reborn;
  reborn.self_incarnation = 555;
  LinkTestEnd c(0, 1, reborn);
  LinkTestEnd d(1, 0);
  c.send(0, 50);
  d.receive(c.take_output(0), 0);
  EXPECT_EQ(d.link.status().code(), Code::kCorrupt);
  EXPECT_THAT(d.link.status().message(), HasSubstr("555"));
}

TEST(Link, GoodbyeComesBehindAFullWindow) {
  LinkTestEnd a(0, 1);
  LinkTestEnd b(1, 0);
  std::uint64_t sent = 0;
  while (a.send(sent, 4000) == SendResult::kAccepted) ++sent;
  a.link.close();
  EXPECT_EQ(a.link.status().code(), Code::kShutdown);
  EXPECT_EQ(a.send(0, 1), SendResult::kClosed);
  EXPECT_TRUE(a.link.has_unsent());
  exchange(a, b, 0);
  EXPECT_FALSE(a.link.has_unsent()) << "a goodbye is answered before the frames are read";
  EXPECT_TRUE(b.link.status().ok()) << "and takes effect after them";
  EXPECT_EQ(b.send(0, 1), SendResult::kAccepted);
  a.link.on_end("eof", 0);
  b.link.on_end("eof", 0);
  EXPECT_EQ(a.link.state(), Link::State::kClosed);
  for (std::uint64_t i = 0; i < sent; ++i) ASSERT_EQ(b.pop(0), static_cast<std::int64_t>(i));
  EXPECT_EQ(b.pop(0), -1);
  EXPECT_EQ(b.link.status().code(), Code::kShutdown);
  EXPECT_EQ(b.link.status().peer(), 0);
  EXPECT_THAT(b.link.status().message(), HasSubstr("rank 0 on host host-0 left"));
  EXPECT_EQ(b.link.state(), Link::State::kClosed);
  EXPECT_FALSE(b.link.has_unsent());
}

TEST(Link, AnswerToAGoodbyeIsOwed) {
  LinkTestEnd a(0, 1);
  LinkTestEnd b(1, 0);
  a.link.close();
  b.receive(a.take_output(0), 0);
  b.link.close();
  EXPECT_TRUE(b.link.has_unsent());
  a.receive(b.take_output(0), 0);
  EXPECT_FALSE(b.link.has_unsent());
  EXPECT_FALSE(a.link.has_unsent());
}

// Of this thread: other programs do not count.
Nanos processor_time() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * kSecond + now.tv_nsec;
}

TEST(Link, CoreCostsLittle) {
  LinkTestEnd a(0, 1);
  LinkTestEnd b(1, 0);
  constexpr int kFrames = 200'000;
  transport::FrameHeader header;
  std::array<std::span<const std::byte>, 4> pieces;
  transport::Frame frame;
  std::uint32_t rail_seq = 0;
  const Nanos begin = processor_time();
  for (int i = 0; i < kFrames; ++i) {
    ASSERT_EQ(a.link.send(header, nullptr), SendResult::kAccepted);
    while (a.link.has_output()) {
      const std::size_t count = a.link.output(pieces);
      ASSERT_EQ(count, 1u);
      ASSERT_TRUE(b.link.on_header(pieces[0].data(), 0));
      ASSERT_EQ(b.link.on_frame(pieces[0].data(), frame, rail_seq, 0), Incoming::kDeliver);
      b.link.consumed(rail_seq, pieces[0].size(), 0);
      a.link.on_written(pieces[0].size(), 0);
    }
    if (b.link.has_output()) a.receive(b.take_output(0), 0);
  }
  std::printf("link core, both ends, send to consumed: %.0f ns a frame\n",
              static_cast<double>(processor_time() - begin) / kFrames);
}

}  // namespace
}  // namespace syncline::cluster
