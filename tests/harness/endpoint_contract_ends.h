// Cases of the endpoint contract: sleeping, leaving and dying. Included by endpoint_contract.h
// only.
#pragma once

#include "tests/harness/endpoint_contract.h"

TYPED_TEST_P(EndpointContract, WakesForFrameFromAnotherThread) {
  using namespace syncline;  // NOLINT
  event::Poller& poller = *this->pair_.poller_a;
  std::atomic<std::uint64_t> turn{0};
  constexpr std::uint64_t kRounds = 200;
  event::NamedThread sender("sender", [&] {
    event::Poller pause;
    for (std::uint64_t i = 0; i < kRounds; ++i) {
      while (turn.load() != i) pause.poll(10 * kMicrosecond);
      harness::send_numbered(*this->pair_.b, i, 100);
    }
  });
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    turn.store(i);
    const Nanos deadline = monotonic_now() + harness::kPatience;
    const transport::Frame* frame = this->pair_.a->front();
    while (frame == nullptr && monotonic_now() < deadline) {
      // A lost wake-up shows as a wait of the whole patience.
      if (harness::may_sleep(*this->pair_.a)) poller.poll(harness::kPatience);
      this->pair_.a->disarm();
      frame = this->pair_.a->front();
    }
    ASSERT_NE(frame, nullptr);
    ASSERT_LT(monotonic_now(), deadline) << "round " << i << ": the wake-up was lost";
    EXPECT_TRUE(harness::is_numbered(*frame, i, 100));
    EXPECT_FALSE(harness::may_sleep(*this->pair_.a)) << "a frame is there already";
    this->pair_.a->disarm();
    this->pair_.a->pop();
  }
}

TYPED_TEST_P(EndpointContract, WakesForRoom) {
  using namespace syncline;  // NOLINT
  constexpr std::size_t kBytes = 128 * 1024;
  const std::uint64_t sent = harness::send_until_blocked(*this->pair_.a, kBytes);
  std::atomic<bool> stop{false};
  event::NamedThread reader("reader", [&] {
    while (!stop.load()) {
      harness::pump(this->pair_.b.get(), *this->pair_.poller_b);
      while (this->pair_.b->front() != nullptr) this->pair_.b->pop();
    }
  });
  const Nanos deadline = monotonic_now() + harness::kPatience;
  std::uint64_t next = sent;
  while (next < sent + 100 && monotonic_now() < deadline) {
    if (harness::send_numbered(*this->pair_.a, next, kBytes) == transport::SendResult::kAccepted) {
      ++next;
      continue;
    }
    if (harness::may_sleep(*this->pair_.a)) this->pair_.poller_a->poll(harness::kPatience);
    this->pair_.a->disarm();
  }
  EXPECT_LT(monotonic_now(), deadline) << "the wake-up was lost";
  EXPECT_EQ(next, sent + 100);
  stop.store(true);
  reader.join();
}

TYPED_TEST_P(EndpointContract, HearsAnIdlePeer) {
  using namespace syncline;  // NOLINT
  ASSERT_TRUE(harness::pump_until(this->pair_, [&] { return this->pair_.a->last_heard() > 0; }));
  const Nanos before = this->pair_.a->last_heard();
  EXPECT_TRUE(harness::pump_until(
      this->pair_, [&] { return this->pair_.a->last_heard() > before + 50 * kMillisecond; },
      2 * kSecond));
  EXPECT_EQ(this->pair_.a->front(), nullptr) << "a sign of life is no frame";
}

TYPED_TEST_P(EndpointContract, GoodbyeDeliversEverything) {
  using namespace syncline;  // NOLINT
  constexpr std::size_t kBytes = 100'000;
  const std::uint64_t sent = harness::send_until_blocked(*this->pair_.a, kBytes);
  this->pair_.a->close();
  EXPECT_EQ(harness::send_numbered(*this->pair_.a, sent, 10), transport::SendResult::kClosed);
  // The leaver lingers first, with a reader that does not read yet; then the reader is alone.
  EXPECT_TRUE(harness::pump_until(this->pair_, [&] { return !this->pair_.a->has_unsent(); }));
  EXPECT_TRUE(this->pair_.b->status().ok()) << "frames come before the goodbye";
  this->pair_.a.reset();
  for (std::uint64_t i = 0; i < sent; ++i) {
    const transport::Frame* frame = harness::await_frame(this->pair_, *this->pair_.b);
    ASSERT_NE(frame, nullptr) << "frame " << i << " of " << sent
                              << " was lost: " << this->pair_.b->status().to_string();
    ASSERT_TRUE(harness::is_numbered(*frame, i, kBytes)) << "frame " << i;
    this->pair_.b->pop();
  }
  EXPECT_TRUE(harness::pump_until(this->pair_, [&] {
    EXPECT_EQ(this->pair_.b->front(), nullptr);
    return !this->pair_.b->status().ok();
  }));
  EXPECT_EQ(this->pair_.b->status().code(), Code::kShutdown);
  EXPECT_EQ(this->pair_.b->status().peer(), 0);
  EXPECT_EQ(harness::send_numbered(*this->pair_.b, 0, 10), transport::SendResult::kClosed);
  EXPECT_FALSE(this->pair_.b->has_unsent());
}

TYPED_TEST_P(EndpointContract, DestructionSaysGoodbye) {
  using namespace syncline;  // NOLINT
  for (std::uint64_t i = 0; i < 3; ++i) harness::send_numbered(*this->pair_.a, i, 500);
  this->pair_.a.reset();
  for (std::uint64_t i = 0; i < 3; ++i) {
    const transport::Frame* frame = harness::await_frame(this->pair_, *this->pair_.b);
    ASSERT_NE(frame, nullptr);
    EXPECT_TRUE(harness::is_numbered(*frame, i, 500));
    this->pair_.b->pop();
  }
  EXPECT_TRUE(harness::pump_until(this->pair_, [&] {
    EXPECT_EQ(this->pair_.b->front(), nullptr);
    return !this->pair_.b->status().ok();
  }));
  EXPECT_EQ(this->pair_.b->status().code(), Code::kShutdown);
}

TYPED_TEST_P(EndpointContract, BothLeaveAtOnce) {
  using namespace syncline;  // NOLINT
  for (std::uint64_t i = 0; i < 10; ++i) {
    harness::send_numbered(*this->pair_.a, i, 30'000);
    harness::send_numbered(*this->pair_.b, i, 30'000);
  }
  this->pair_.a->close();
  this->pair_.b->close();
  EXPECT_TRUE(harness::pump_until(
      this->pair_, [&] { return !this->pair_.a->has_unsent() && !this->pair_.b->has_unsent(); }));
  for (transport::Endpoint* end : {this->pair_.a.get(), this->pair_.b.get()}) {
    for (std::uint64_t i = 0; i < 10; ++i) {
      const transport::Frame* frame = harness::await_frame(this->pair_, *end);
      ASSERT_NE(frame, nullptr) << "frame " << i;
      EXPECT_TRUE(harness::is_numbered(*frame, i, 30'000));
      end->pop();
    }
  }
}

TYPED_TEST_P(EndpointContract, CloseIsIdempotentAndFinal) {
  using namespace syncline;  // NOLINT
  for (int i = 0; i < 3; ++i) this->pair_.a->close();
  EXPECT_TRUE(harness::pump_until(this->pair_, [&] {
    EXPECT_EQ(this->pair_.b->front(), nullptr);
    return this->pair_.b->status().code() == Code::kShutdown;
  }));
  for (int i = 0; i < 3; ++i) {
    this->pair_.b->close();
    EXPECT_EQ(this->pair_.b->status().code(), Code::kShutdown);
    EXPECT_EQ(harness::send_numbered(*this->pair_.a, 0, 1), transport::SendResult::kClosed);
    EXPECT_EQ(harness::send_numbered(*this->pair_.b, 0, 1), transport::SendResult::kClosed);
    harness::pump(this->pair_.a.get(), *this->pair_.poller_a);
    harness::pump(this->pair_.b.get(), *this->pair_.poller_b);
  }
}

TYPED_TEST_P(EndpointContract, AnyTeardownOrder) {
  using namespace syncline;  // NOLINT
  for (int order = 0; order < 8; ++order) {
    harness::ConnectedPair pair = TypeParam::make();
    harness::send_numbered(*pair.a, 0, 100'000);
    harness::send_numbered(*pair.b, 0, 100'000);
    if ((order & 4) != 0) {
      ASSERT_NE(harness::await_frame(pair, *pair.a), nullptr);
    }
    if ((order & 2) != 0) pair.a->close();
    (order & 1 ? pair.a : pair.b).reset();
    harness::pump(pair.a.get(), *pair.poller_a);
    harness::pump(pair.b.get(), *pair.poller_b);
    (order & 1 ? pair.b : pair.a).reset();
    EXPECT_EQ(pair.poller_a->size(), 0u) << "a descriptor stayed behind";
    EXPECT_EQ(pair.poller_b->size(), 0u) << "a descriptor stayed behind";
  }
}

TYPED_TEST_P(EndpointContract, DeathIsNoticedAndNamed) {
  using namespace syncline;  // NOLINT
  if (!this->pair_.kill_b) GTEST_SKIP() << "peers of this transport cannot die alone";
  harness::send_numbered(*this->pair_.b, 0, 50'000);
  ASSERT_NE(harness::await_frame(this->pair_, *this->pair_.a), nullptr);
  this->pair_.kill_b();
  const Nanos begin = monotonic_now();
  ASSERT_TRUE(harness::pump_until(
      this->pair_, [&] { return !this->pair_.a->status().ok(); }, kSecond));
  EXPECT_LT(monotonic_now() - begin, kSecond);
  const Status status = this->pair_.a->status();
  EXPECT_EQ(status.code(), Code::kPeerLost) << status.to_string();
  EXPECT_EQ(status.peer(), 1) << status.to_string();
  EXPECT_EQ(harness::send_numbered(*this->pair_.a, 0, 10), transport::SendResult::kClosed);
  const transport::Frame* frame = this->pair_.a->front();
  ASSERT_NE(frame, nullptr) << "what arrived before stays readable";
  EXPECT_TRUE(harness::is_numbered(*frame, 0, 50'000));
  this->pair_.a->pop();
  EXPECT_EQ(this->pair_.a->front(), nullptr);
  EXPECT_FALSE(this->pair_.a->has_unsent());
}
