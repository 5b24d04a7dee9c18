#include "transport/sim/network.h"

#include <gtest/gtest.h>

#include <array>

namespace syncline::transport::sim {
namespace {

struct SimPair {
  explicit SimPair(std::uint64_t seed = 1) : network(seed) {
    std::tie(a, b) = network.pair(0, 1, 0);
  }
  static IoResult write(Stream& to, const std::vector<std::byte>& bytes) {
    const std::span<const std::byte> piece(bytes);
    return to.write({&piece, 1});
  }
  // All that can be read now, and how the last read ended.
  static IoState drain(Stream& from, std::vector<std::byte>& into) {
    std::array<std::byte, 1000> space;
    for (;;) {
      const IoResult got = from.read(space);
      if (got.state != IoState::kOk) return got.state;
      into.insert(into.end(), space.begin(), space.begin() + static_cast<long>(got.bytes));
    }
  }
  Network network;
  std::unique_ptr<Stream> a, b;
};

TEST(SimNetwork, BytesComeInOrderAndNotBeforeTheLatency) {
  SimPair pair;
  pair.network.path(0, 1, 0).latency = kMillisecond;
  pair.network.path(0, 1, 0).jitter = 3 * kMillisecond;
  std::vector<std::byte> sent, seen;
  for (int i = 0; i < 200; ++i) {
    const std::vector<std::byte> bytes(50, static_cast<std::byte>(i));
    const IoResult wrote = SimPair::write(*pair.a, bytes);
    sent.insert(sent.end(), bytes.begin(), bytes.begin() + static_cast<long>(wrote.bytes));
  }
  EXPECT_EQ(SimPair::drain(*pair.b, seen), IoState::kAgain);
  EXPECT_TRUE(seen.empty());
  pair.network.advance(5 * kMillisecond);
  pair.a->close();
  EXPECT_EQ(SimPair::drain(*pair.b, seen), IoState::kEof);
  EXPECT_EQ(seen, sent);
}

TEST(SimNetwork, WhatIsInFlightIsBounded) {
  SimPair pair;
  const std::vector<std::byte> bytes(100'000);
  std::size_t taken = 0;
  for (IoResult wrote; (wrote = SimPair::write(*pair.a, bytes)).state == IoState::kOk;) {
    taken += wrote.bytes;
  }
  EXPECT_EQ(taken, std::size_t{256} * 1024);
}

TEST(SimNetwork, DeadPathSaysNothingAndGoesOn) {
  SimPair pair;
  pair.network.set_up(0, 1, 0, false);
  SimPair::write(*pair.a, std::vector<std::byte>(10));
  std::vector<std::byte> seen;
  pair.network.advance(kSecond);
  EXPECT_EQ(SimPair::drain(*pair.b, seen), IoState::kAgain);
  const auto listener = pair.network.listen(0, 0, 80);
  const auto attempt = pair.network.connect(1, Network::address(0, 0, 80));
  pair.network.set_up(0, 1, 0, true);
  pair.network.advance(kMillisecond);
  EXPECT_EQ(SimPair::drain(*pair.b, seen), IoState::kAgain) << "it comes with the next retry only";
  EXPECT_EQ(attempt->error(), EINPROGRESS) << "its first packet is gone";
  pair.network.advance(10 * kSecond);
  SimPair::drain(*pair.b, seen);
  EXPECT_GT(seen.size(), 0u);
}

TEST(SimNetwork, ResetIsSeenByWhomItReaches) {
  SimPair pair;
  pair.network.set_up(0, 1, 0, false);
  pair.network.reset(0, 1, 0);
  std::vector<std::byte> seen;
  EXPECT_EQ(SimPair::drain(*pair.a, seen), IoState::kReset);
  EXPECT_EQ(SimPair::drain(*pair.b, seen), IoState::kAgain) << "half-open";
}

TEST(SimNetwork, PortsAcceptRefuseOrVanish) {
  Network network(3);
  const auto there = Network::address(1, 0, 80);
  auto listener = network.listen(1, 0, 80);
  ASSERT_TRUE(listener.ok());
  EXPECT_EQ(listener.value()->address(), there);
  EXPECT_EQ(network.listen(1, 0, 80).status().code(), Code::kExhausted);
  auto attempt = network.connect(0, there);
  EXPECT_EQ(attempt->error(), EINPROGRESS);
  EXPECT_EQ(listener.value()->accept().value().stream, nullptr);
  network.advance(kSecond);
  EXPECT_EQ(attempt->error(), 0);
  const auto accepted = listener.value()->accept();
  EXPECT_NE(accepted.value().stream, nullptr);
  EXPECT_EQ(accepted.value().from, attempt->local());
  EXPECT_EQ(accepted.value().from.host(), "10.0.0.1");
  for (const bool silently : {false, true}) {
    network.crash(1, silently);
    attempt = network.connect(0, there);
    network.advance(60 * kSecond);
    EXPECT_EQ(attempt->error(), silently ? EINPROGRESS : ECONNREFUSED);
  }
}

TEST(SimNetwork, DeathIsKnownWhenThePathCarriesTheNews) {
  SimPair pair;
  pair.network.set_up(0, 1, 0, false);
  pair.network.crash(1, false);
  pair.network.advance(kSecond);
  EXPECT_EQ(SimPair::write(*pair.a, std::vector<std::byte>(10)).state, IoState::kOk);
  pair.network.set_up(0, 1, 0, true);
  EXPECT_EQ(SimPair::write(*pair.a, std::vector<std::byte>(10)).state, IoState::kReset);
}

TEST(SimNetwork, WhatNobodyAcceptedIsClosedWithTheListener) {
  Network network(3);
  auto listener = network.listen(1, 0);
  ASSERT_TRUE(listener.ok());
  const auto attempt = network.connect(0, listener.value()->address());
  network.advance(kSecond);
  ASSERT_EQ(attempt->error(), 0);
  const auto stream = attempt->take();
  listener.value().reset();
  network.advance(kSecond);
  std::vector<std::byte> seen;
  EXPECT_EQ(SimPair::drain(*stream, seen), IoState::kEof);
}

TEST(SimNetwork, RepeatedWritesArriveTwice) {
  SimPair pair;
  pair.network.repeat(0, 0, 1000);
  const IoResult wrote = SimPair::write(*pair.a, std::vector<std::byte>(100));
  pair.network.advance(kSecond);
  std::vector<std::byte> seen;
  SimPair::drain(*pair.b, seen);
  EXPECT_EQ(seen.size(), 2 * wrote.bytes);
}

TEST(SimNetwork, DamageFlipsOneBitOfAWrite) {
  SimPair pair(5);
  pair.network.path(0, 1, 0).damaged_per_mille = 1000;
  const IoResult wrote = SimPair::write(*pair.a, std::vector<std::byte>(100));
  pair.network.advance(kSecond);
  std::vector<std::byte> seen;
  SimPair::drain(*pair.b, seen);
  int bits = 0;
  for (const std::byte each : seen) bits += __builtin_popcount(std::to_integer<unsigned>(each));
  EXPECT_EQ(seen.size(), wrote.bytes);
  EXPECT_EQ(bits, 1);
}

}  // namespace
}  // namespace syncline::transport::sim
