// The core of a link whose connections end, damage bytes and come back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "cluster/link_test_end.h"
#include "tests/harness/instrumented.h"

namespace syncline::cluster {
namespace {

using ::testing::HasSubstr;
using transport::SendResult;
using wire::Type;

constexpr Nanos kOneMs = kMillisecond;

LinkConfig healing(int rails = 1) {
  LinkConfig config;
  config.heals = true;
  config.rails = rails;
  return config;
}

LinkConfig dialling(int rails = 1) {
  LinkConfig config = healing(rails);
  config.dials = true;
  return config;
}

struct HealingPair {
  explicit HealingPair(int rail_count = 1)
      : a(0, 1, healing(rail_count)), b(1, 0, dialling(rail_count)), rails(rail_count) {}

  void end(int rail = 0) {
    a.link.on_end("reset", now, rail);
    b.link.on_end("reset", now, rail);
    (void)a.link.take_actions();
    (void)b.link.take_actions();
  }
  void connect(int rail = 0) {
    a.connect(now, rail);
    b.connect(now, rail);
  }
  void exchange_all() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int rail = 0; rail < rails; ++rail) {
        const auto there = a.take_output(now, ~std::size_t{0}, rail);
        const auto back = b.take_output(now, ~std::size_t{0}, rail);
        b.receive(there, now, rail);
        a.receive(back, now, rail);
        moved |= !there.empty() || !back.empty();
      }
    }
  }
  // One tick each, a millisecond later.
  void tick() {
    now += kOneMs;
    a.link.tick(now);
    b.link.tick(now);
  }

  LinkTestEnd a;
  LinkTestEnd b;
  int rails;
  Nanos now = 0;
};

// Wherever the stream is cut, in both directions at once.
TEST(LinkHealing, EveryCutLosesAndRepeatsNothing) {
  std::mt19937_64 random(5);
  HealingPair pair;
  std::uint64_t sent = 0, sent_back = 0;
  std::int64_t seen = 0, seen_back = 0;
  int cuts = 0;
  while (seen < 20'000 || seen_back < 20'000) {
    while (random() % 4 != 0 && pair.a.send(sent, random() % 300) == SendResult::kAccepted) ++sent;
    while (random() % 4 != 0 && pair.b.send(sent_back, random() % 300) == SendResult::kAccepted) {
      ++sent_back;
    }
    auto there = pair.a.take_output(pair.now);
    auto back = pair.b.take_output(pair.now);
    const bool cut = random() % 8 == 0;
    if (cut && !there.empty()) there.resize(random() % there.size());
    if (cut && !back.empty()) back.resize(random() % back.size());
    pair.b.receive(there, pair.now);
    pair.a.receive(back, pair.now);
    if (cut) {
      ++cuts;
      pair.end();
      ASSERT_EQ(pair.a.link.state(), Link::State::kBroken);
      ASSERT_TRUE(pair.b.link.wants_connection(0, pair.now));
      ASSERT_FALSE(pair.a.link.wants_connection(0, pair.now));
      if (random() % 2 == 0) pair.tick();
      pair.connect();
      if (random() % 4 == 0) {  // and the new one ends at once
        pair.b.receive(pair.a.take_output(pair.now), pair.now);
        pair.end();
        pair.connect();
      }
    }
    for (std::int64_t op; (op = pair.b.pop(pair.now)) >= 0; ++seen) ASSERT_EQ(op, seen);
    for (std::int64_t op; (op = pair.a.pop(pair.now)) >= 0; ++seen_back) ASSERT_EQ(op, seen_back);
    pair.tick();
  }
  EXPECT_GT(cuts, 100);
  EXPECT_TRUE(pair.a.link.status().ok()) << pair.a.link.status().to_string();
  EXPECT_TRUE(pair.b.link.status().ok()) << pair.b.link.status().to_string();
}

TEST(LinkHealing, OnlyWhatThePeerLacksIsSentAgain) {
  HealingPair pair;
  for (std::uint64_t i = 0; i < 10; ++i) pair.a.send(i, 1000);
  auto bytes = pair.a.take_output(0);
  bytes.resize(6 * (1000 + wire::kHeaderBytes) + 10);
  pair.b.receive(bytes, 0);
  pair.end();
  pair.connect();
  pair.exchange_all();
  EXPECT_EQ(pair.a.link.bytes_repeated(), 4 * (1000 + wire::kHeaderBytes));
  EXPECT_EQ(pair.b.link.stats().duplicates, 0u);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(pair.b.pop(0), i);
  EXPECT_THAT(pair.a.link.take_actions().log, HasSubstr("goes on after"));
}

TEST(LinkHealing, NothingButTheResumeLeavesBeforeThePeersCame) {
  HealingPair pair;
  pair.a.send(0, 100);
  pair.end();
  pair.a.connect(0);
  const auto bytes = pair.a.take_output(0);
  EXPECT_EQ(bytes.size(), wire::kHeaderBytes + wire::kResumeBytesMin);
  EXPECT_FALSE(pair.a.link.is_up(0));
  for (int i = 0; i < 1000; ++i) pair.tick();
  EXPECT_TRUE(pair.a.link.take_actions().disconnect)
      << "a peer that does not resume is not waited for";
}

TEST(LinkHealing, DamagedPayloadCostsOneFrame) {
  HealingPair pair;
  for (std::uint64_t i = 0; i < 5; ++i) pair.a.send(i, 1000);
  auto bytes = pair.a.take_output(0);
  bytes[2 * (1000 + wire::kHeaderBytes) + 500] ^= std::byte{4};
  pair.b.receive(bytes, 0);
  pair.exchange_all();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(pair.b.pop(0), i);
  EXPECT_EQ(pair.b.link.stats().damaged, 1u);
  EXPECT_EQ(pair.a.link.bytes_repeated(), 1000 + wire::kHeaderBytes);
  EXPECT_EQ(pair.a.link.stats().connections, 1u);
}

TEST(LinkHealing, LostRequestForADamagedFrameIsRepeated) {
  HealingPair pair;
  pair.a.send(0, 1000);
  auto bytes = pair.a.take_output(0);
  bytes[100] ^= std::byte{1};
  pair.b.receive(bytes, 0);
  pair.b.take_output(0);  // lost
  EXPECT_EQ(pair.b.pop(0), -1);
  for (int i = 0; i < 300 && pair.b.queue.empty(); ++i) {
    pair.tick();
    pair.exchange_all();
  }
  EXPECT_EQ(pair.b.pop(pair.now), 0);
}

TEST(LinkHealing, DamagedHeaderCostsTheConnection) {
  HealingPair pair;
  for (std::uint64_t i = 0; i < 5; ++i) pair.a.send(i, 1000);
  auto bytes = pair.a.take_output(0);
  bytes[2 * (1000 + wire::kHeaderBytes) + 20] ^= std::byte{4};
  pair.b.receive(bytes, 0);
  EXPECT_EQ(pair.b.link.state(), Link::State::kBroken);
  const LinkActions actions = pair.b.link.take_actions();
  EXPECT_EQ(actions.disconnect, 1u);
  EXPECT_THAT(actions.log, HasSubstr("damaged bytes from rank 0 on host host-0"));
  pair.end();
  pair.connect();
  pair.exchange_all();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(pair.b.pop(0), i);
}

TEST(LinkHealing, PathThatDamagesEverythingIsGivenUp) {
  HealingPair pair;
  pair.a.send(0, 1000);
  for (int i = 0; i < 1000 && pair.b.link.status().ok(); ++i) {
    auto bytes = pair.a.take_output(pair.now);
    if (bytes.size() > 1000) bytes[500] ^= std::byte{1};
    pair.b.receive(bytes, pair.now);
    pair.a.receive(pair.b.take_output(pair.now), pair.now);
    pair.now += 50 * kOneMs;
    pair.tick();
  }
  EXPECT_EQ(pair.b.link.status().code(), Code::kCorrupt);
  EXPECT_THAT(pair.b.link.status().message(), HasSubstr("nothing but damaged frames"));
}

// Frames on two rails in any interleaving, rails that end and come back.
TEST(LinkHealing, SeveralRailsKeepTheOrder) {
  std::mt19937_64 random(11);
  HealingPair pair(2);
  EXPECT_TRUE(pair.b.link.wants_connection(1, 0)) << "rail 1 was never connected";
  pair.connect(1);
  pair.exchange_all();
  ASSERT_TRUE(pair.a.link.is_up(1) && pair.b.link.is_up(1));
  std::uint64_t sent = 0;
  std::int64_t seen = 0;
  std::uint64_t carried[2] = {};
  const std::int64_t enough = harness::kInstrumented ? 5'000 : 30'000;
  while (seen < enough) {
    while (random() % 8 != 0 && pair.a.send(sent, random() % 9000) == SendResult::kAccepted) ++sent;
    for (const int rail : {static_cast<int>(random() % 2), static_cast<int>(random() % 2)}) {
      auto bytes = pair.a.take_output(pair.now, 1 + random() % 50'000, rail);
      carried[rail] += bytes.size();
      const bool damage = random() % 64 == 0 && !bytes.empty();
      if (damage) bytes[random() % bytes.size()] ^= std::byte{16};
      pair.b.receive(bytes, pair.now, rail);
      pair.a.receive(pair.b.take_output(pair.now, ~std::size_t{0}, rail), pair.now, rail);
    }
    for (std::int64_t op; (op = pair.b.pop(pair.now)) >= 0; ++seen) ASSERT_EQ(op, seen);
    if (random() % 16 == 0) pair.end(static_cast<int>(random() % 2));
    for (int rail = 0; rail < 2; ++rail) {
      if (pair.a.link.is_connected(rail) && pair.b.link.is_connected(rail)) continue;
      if (random() % 3 == 0) pair.connect(rail);
    }
    pair.tick();
    ASSERT_TRUE(pair.a.link.status().ok()) << pair.a.link.status().to_string();
    ASSERT_TRUE(pair.b.link.status().ok()) << pair.b.link.status().to_string();
  }
  EXPECT_GT(carried[0], carried[1] / 3);
  EXPECT_GT(carried[1], carried[0] / 3);
}

TEST(LinkHealing, SilentRailHandsItsFramesOver) {
  HealingPair pair(2);
  pair.connect(1);
  pair.exchange_all();
  for (std::uint64_t i = 0; i < 4; ++i) pair.a.send(i, 1000);
  pair.a.take_output(0, ~std::size_t{0}, 1);  // swallowed: the path is cut without a word
  for (int i = 0; i < 700 && pair.b.queue.size() < 4; ++i) {
    pair.tick();
    pair.b.receive(pair.a.take_output(pair.now, ~std::size_t{0}, 0), pair.now, 0);
    pair.a.receive(pair.b.take_output(pair.now, ~std::size_t{0}, 0), pair.now, 0);
    pair.a.take_output(pair.now, ~std::size_t{0}, 1);
    pair.b.take_output(pair.now, ~std::size_t{0}, 1);
  }
  for (int i = 0; i < 4; ++i) EXPECT_EQ(pair.b.pop(pair.now), i);
  EXPECT_LE(pair.now, 650 * kOneMs);
  EXPECT_FALSE(pair.a.link.is_connected(1));
}

// The side that saw the carrier go tells the other one by the rail that is left.
TEST(LinkHealing, EndOfARailIsReported) {
  HealingPair pair(2);
  pair.connect(1);
  pair.exchange_all();
  pair.b.send(0, 1000);
  pair.b.take_output(0, ~std::size_t{0}, 1);  // swallowed
  pair.a.link.on_end("its interface lost the carrier", 0, 1);
  pair.b.receive(pair.a.take_output(0, ~std::size_t{0}, 0), 0, 0);
  EXPECT_FALSE(pair.b.link.is_connected(1));
  pair.a.receive(pair.b.take_output(0, ~std::size_t{0}, 0), 0, 0);
  EXPECT_EQ(pair.a.pop(0), 0);
  EXPECT_EQ(pair.a.link.state(), Link::State::kOpen);
}

TEST(LinkHealing, SilentConnectionIsReplacedUnlessItSpeaksFirst) {
  HealingPair pair;
  pair.now = 350 * kOneMs;
  EXPECT_FALSE(pair.b.link.wants_connection(0, pair.now));
  pair.now = 450 * kOneMs;
  EXPECT_TRUE(pair.b.link.wants_connection(0, pair.now));
  EXPECT_EQ(pair.b.link.state(), Link::State::kOpen) << "nothing has ended yet";
  pair.a.send(0, 10);
  pair.b.receive(pair.a.take_output(pair.now), pair.now);
  EXPECT_FALSE(pair.b.link.wants_connection(0, pair.now));
}

TEST(LinkHealing, GoodbyeSurvivesACut) {
  HealingPair pair;
  pair.a.send(0, 10);
  pair.a.link.close();
  pair.a.take_output(0);  // lost
  pair.end();
  EXPECT_TRUE(pair.a.link.has_unsent());
  pair.connect();
  pair.exchange_all();
  EXPECT_FALSE(pair.a.link.has_unsent());
  EXPECT_EQ(pair.b.pop(0), 0);
  EXPECT_EQ(pair.b.pop(0), -1);
  EXPECT_EQ(pair.b.link.status().code(), Code::kShutdown);
}

TEST(LinkHealing, ResumeOfAnotherLifeOrOfFramesNeverSentEndsTheLink) {
  HealingPair pair;
  LinkConfig stranger = dialling();
  stranger.peer_incarnation = 9;
  LinkTestEnd c(1, 0, stranger);
  pair.end();
  pair.a.connect(0);
  c.connect(0);
  pair.a.receive(c.take_output(0), 0);
  EXPECT_EQ(pair.a.link.status().code(), Code::kCorrupt);
  EXPECT_THAT(pair.a.link.status().message(), HasSubstr("does not fit this link"));
}

}  // namespace
}  // namespace syncline::cluster
