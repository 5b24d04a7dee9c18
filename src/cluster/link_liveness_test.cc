// Heartbeats, suspicion, silence, broken connections and evidence of death, under virtual time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster/link.h"
#include "cluster/link_test_end.h"

namespace syncline::cluster {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using transport::SendResult;
using wire::Type;

LinkConfig patient() {
  LinkConfig config;
  config.silence = 2 * kSecond;
  return config;
}

// Ticks every 50 ms; returns the lines logged up to and including `until`.
std::string tick_until(LinkTestEnd& end, Nanos from, Nanos until) {
  std::string log;
  for (Nanos now = from; now <= until; now += 50 * kMillisecond) {
    end.link.tick(now);
    log += end.link.take_actions().log;
    end.take_output(now);
  }
  return log;
}

TEST(LinkLiveness, BeatsOnlyWhenIdle) {
  LinkTestEnd a(0, 1);
  LinkTestEnd b(1, 0);
  for (Nanos now = 0; now < kSecond; now += 10 * kMillisecond) {
    a.link.tick(now);
    b.receive(a.take_output(now), now);
  }
  EXPECT_GE(b.count(Type::kHeartbeat), 9);
  EXPECT_LE(b.count(Type::kHeartbeat), 10);
  const int before = b.count(Type::kHeartbeat);
  for (Nanos now = kSecond; now < 2 * kSecond; now += 10 * kMillisecond) {
    a.send(1, 10);
    b.receive(a.take_output(now), now);
    a.link.tick(now);
    b.receive(a.take_output(now), now);
  }
  EXPECT_EQ(b.count(Type::kHeartbeat), before);
}

TEST(LinkLiveness, SuspectsOnceAndHearsAgain) {
  LinkTestEnd a(0, 1, patient());
  LinkTestEnd b(1, 0);
  EXPECT_THAT(tick_until(a, 0, 950 * kMillisecond), IsEmpty());
  const std::string log = tick_until(a, 1000 * kMillisecond, 1500 * kMillisecond);
  EXPECT_THAT(log, HasSubstr("suspect: rank 1 on host host-1 has been silent for 1000 ms"));
  EXPECT_EQ(log.find("suspect"), log.rfind("suspect"));
  EXPECT_TRUE(a.link.status().ok());
  b.link.tick(1500 * kMillisecond);
  a.receive(b.take_output(1500 * kMillisecond), 1500 * kMillisecond);
  EXPECT_THAT(a.link.take_actions().log, HasSubstr("heard again"));
  EXPECT_EQ(a.link.last_heard(), 1500 * kMillisecond);
  EXPECT_THAT(tick_until(a, 1550 * kMillisecond, 2450 * kMillisecond), IsEmpty());
}

TEST(LinkLiveness, SilenceLosesThePeer) {
  LinkTestEnd a(0, 1, patient());
  tick_until(a, 0, 1950 * kMillisecond);
  EXPECT_TRUE(a.link.status().ok());
  a.link.tick(2000 * kMillisecond);
  EXPECT_EQ(a.link.status().code(), Code::kPeerLost);
  EXPECT_EQ(a.link.status().peer(), 1);
  EXPECT_THAT(a.link.status().message(), HasSubstr("rank 1 on host host-1 was silent for 2000 ms"));
  EXPECT_TRUE(a.link.take_actions().disconnect);
  EXPECT_FALSE(a.link.has_unsent());
}

TEST(LinkLiveness, OwnStandstillIsNotThePeersSilence) {
  LinkConfig config = patient();
  config.suspect = INT64_MAX;  // somebody else watches
  LinkTestEnd a(0, 1, config);
  tick_until(a, 0, 500 * kMillisecond);
  a.link.tick(60 * kSecond);  // SIGCONT
  EXPECT_TRUE(a.link.status().ok());
  EXPECT_THAT(a.link.take_actions().log, IsEmpty());
  tick_until(a, 60 * kSecond + 50 * kMillisecond, 62 * kSecond);
  EXPECT_EQ(a.link.status().code(), Code::kPeerLost) << "but its silence after that counts";
}

TEST(LinkLiveness, BrokenConnectionIsProbedAndRefusalIsDeath) {
  LinkTestEnd a(0, 1, patient());
  a.send(0, 10);
  a.link.on_end("the peer closed it", 0);
  EXPECT_EQ(a.link.state(), Link::State::kBroken);
  EXPECT_TRUE(a.link.status().ok());
  LinkActions actions = a.link.take_actions();
  EXPECT_TRUE(actions.disconnect);
  EXPECT_TRUE(actions.probe);
  a.link.on_probe(ProbeResult::kAnswered, 0);
  a.link.tick(99 * kMillisecond);
  EXPECT_FALSE(a.link.take_actions().probe);
  a.link.tick(100 * kMillisecond);
  EXPECT_TRUE(a.link.take_actions().probe);
  a.link.on_probe(ProbeResult::kRefused, 101 * kMillisecond);
  EXPECT_EQ(a.link.status().code(), Code::kPeerLost);
  EXPECT_EQ(a.link.status().peer(), 1);
  ASSERT_NE(a.link.status().cause(), nullptr);
  EXPECT_EQ(a.link.status().cause()->code(), Code::kLinkDown);
  EXPECT_THAT(a.link.status().cause()->message(), HasSubstr("the peer closed it"));
  EXPECT_EQ(a.send(0, 10), SendResult::kClosed);
}

TEST(LinkLiveness, BrokenConnectionEndsBySilence) {
  for (const bool answered : {false, true}) {
    LinkTestEnd a(0, 1, patient());
    a.link.on_end("reset", 0);
    a.link.on_probe(answered ? ProbeResult::kAnswered : ProbeResult::kNoAnswer, 0);
    tick_until(a, 0, 1950 * kMillisecond);
    EXPECT_TRUE(a.link.status().ok());
    tick_until(a, 2000 * kMillisecond, 2000 * kMillisecond);
    EXPECT_EQ(a.link.status().code(), answered ? Code::kLinkDown : Code::kPeerLost);
  }
}

TEST(LinkLiveness, EvidenceCountsAtOnceUnlessThePeerLeft) {
  LinkTestEnd a(0, 1);
  a.link.on_evidence("its launcher reports signal 9");
  EXPECT_EQ(a.link.status().code(), Code::kPeerLost);
  EXPECT_THAT(a.link.status().message(), HasSubstr("signal 9"));

  LinkTestEnd c(0, 1);
  LinkTestEnd d(1, 0);
  d.send(0, 10);
  d.link.close();
  exchange(c, d, 0);
  c.link.on_end("the peer closed it", 0);
  c.link.on_evidence("its launcher reports exit");
  tick_until(c, 0, 60 * kSecond);
  EXPECT_TRUE(c.link.status().ok()) << "a frame before the goodbye is unread";
  EXPECT_EQ(c.pop(0), 0);
  EXPECT_EQ(c.pop(0), -1);
  EXPECT_EQ(c.link.status().code(), Code::kShutdown);
}

TEST(LinkLiveness, ClosingABrokenLinkEndsItWithThePeer) {
  LinkTestEnd a(0, 1);
  a.send(0, 10);
  a.link.on_end("reset", 0);
  EXPECT_TRUE(a.link.has_unsent()) << "a new connection may still come";
  a.link.close();
  EXPECT_EQ(a.link.state(), Link::State::kClosing);
  a.link.on_probe(ProbeResult::kRefused, 0);
  EXPECT_FALSE(a.link.has_unsent()) << "nothing can be done for it";
  EXPECT_EQ(a.link.state(), Link::State::kClosed);
  EXPECT_EQ(a.link.status().code(), Code::kShutdown);
}

TEST(LinkLiveness, AClosingLinkDoesNotWaitForEver) {
  LinkTestEnd a(0, 1, patient());
  a.send(0, 10);
  a.link.close();
  tick_until(a, 0, 1950 * kMillisecond);
  EXPECT_TRUE(a.link.has_unsent());
  tick_until(a, 2000 * kMillisecond, 2000 * kMillisecond);
  EXPECT_FALSE(a.link.has_unsent());
  EXPECT_EQ(a.link.status().code(), Code::kShutdown) << "the first reason stands";
}

}  // namespace
}  // namespace syncline::cluster
