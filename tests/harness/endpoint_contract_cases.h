// Cases of the endpoint contract: frames in flight. Included by endpoint_contract.h only.
#pragma once

#include "tests/harness/endpoint_contract.h"

TYPED_TEST_P(EndpointContract, KeepsOrderAndFields) {
  using namespace syncline;  // NOLINT
  using harness::pattern;
  transport::FrameHeader header;
  header.type = transport::FrameType::kAbort;
  header.flags = 0x5a;
  header.comm = 0xdeadbeef;
  header.op = 0x123456789abcdef0;
  header.step = 0xfffffff1;
  header.segment = 0xfffffff2;
  header.length = 333;
  const auto payload = pattern(1, 333);
  ASSERT_EQ(this->pair_.a->try_send(header, payload.data()), transport::SendResult::kAccepted);
  for (std::uint64_t i = 0; i < 200; ++i) {
    ASSERT_EQ(harness::send_numbered(*this->pair_.a, i, i), transport::SendResult::kAccepted);
  }
  const transport::Frame* frame = harness::await_frame(this->pair_, *this->pair_.b);
  ASSERT_NE(frame, nullptr);
  EXPECT_EQ(frame->header.type, header.type);
  EXPECT_EQ(frame->header.flags, header.flags);
  EXPECT_EQ(frame->header.comm, header.comm);
  EXPECT_EQ(frame->header.op, header.op);
  EXPECT_EQ(frame->header.step, header.step);
  EXPECT_EQ(frame->header.segment, header.segment);
  ASSERT_EQ(frame->header.length, header.length);
  EXPECT_EQ(std::memcmp(frame->payload, payload.data(), payload.size()), 0);
  this->pair_.b->pop();
  for (std::uint64_t i = 0; i < 200; ++i) {
    frame = harness::await_frame(this->pair_, *this->pair_.b);
    ASSERT_NE(frame, nullptr);
    ASSERT_TRUE(harness::is_numbered(*frame, i, i)) << "frame " << i;
    this->pair_.b->pop();
  }
  EXPECT_EQ(this->pair_.b->front(), nullptr);
}

TYPED_TEST_P(EndpointContract, CarriesEverySize) {
  using namespace syncline;  // NOLINT
  const std::size_t sizes[] = {0,
                               1,
                               7,
                               8,
                               63,
                               64,
                               65,
                               127,
                               128,
                               4095,
                               4096,
                               4097,
                               65535,
                               65536,
                               transport::kFrameBytesMax - 1,
                               transport::kFrameBytesMax};
  std::uint64_t number = 0;
  for (const std::size_t size : sizes) {
    bool sent = false;
    ASSERT_TRUE(harness::pump_until(this->pair_, [&] {
      sent = sent || harness::send_numbered(*this->pair_.a, number, size) ==
                         transport::SendResult::kAccepted;
      return sent;
    }));
    const transport::Frame* frame = harness::await_frame(this->pair_, *this->pair_.b);
    ASSERT_NE(frame, nullptr) << size << " bytes";
    EXPECT_TRUE(harness::is_numbered(*frame, number, size)) << size << " bytes";
    this->pair_.b->pop();
    ++number;
  }
}

TYPED_TEST_P(EndpointContract, FrontStaysUntilPop) {
  using namespace syncline;  // NOLINT
  harness::send_numbered(*this->pair_.a, 0, 1000);
  const transport::Frame* first = harness::await_frame(this->pair_, *this->pair_.b);
  ASSERT_NE(first, nullptr);
  const std::byte* place = first->payload;
  for (std::uint64_t i = 1; i <= 50; ++i) harness::send_numbered(*this->pair_.a, i, 20'000);
  const Nanos deadline = monotonic_now() + 20 * kMillisecond;
  while (monotonic_now() < deadline) {
    harness::pump(this->pair_.a.get(), *this->pair_.poller_a);
    harness::pump(this->pair_.b.get(), *this->pair_.poller_b);
    const transport::Frame* again = this->pair_.b->front();
    ASSERT_EQ(again, first);
    ASSERT_EQ(again->payload, place);
    ASSERT_TRUE(harness::is_numbered(*again, 0, 1000));
  }
  this->pair_.b->pop();
  const transport::Frame* second = harness::await_frame(this->pair_, *this->pair_.b);
  ASSERT_NE(second, nullptr);
  EXPECT_TRUE(harness::is_numbered(*second, 1, 20'000));
}

TYPED_TEST_P(EndpointContract, CarriesFingerprints) {
  using namespace syncline;  // NOLINT
  for (const std::size_t size : {std::size_t{0}, std::size_t{5}, transport::kFrameBytesMax}) {
    transport::FrameHeader header = harness::numbered(3, size);
    header.has_fingerprint = true;
    for (std::size_t i = 0; i < 16; ++i) header.fingerprint[i] = static_cast<std::byte>(0xf0 + i);
    const auto payload = harness::pattern(3, size);
    ASSERT_EQ(this->pair_.b->try_send(header, payload.data()), transport::SendResult::kAccepted);
    const transport::Frame* frame = harness::await_frame(this->pair_, *this->pair_.a);
    ASSERT_NE(frame, nullptr);
    EXPECT_TRUE(frame->header.has_fingerprint);
    EXPECT_EQ(frame->header.fingerprint, header.fingerprint);
    ASSERT_EQ(frame->header.length, size);
    EXPECT_EQ(frame->header.flags, 0);
    if (size > 0) {
      EXPECT_EQ(std::memcmp(frame->payload, payload.data(), size), 0);
    }
    this->pair_.a->pop();
  }
}

TYPED_TEST_P(EndpointContract, PushesBackAndRecovers) {
  using namespace syncline;  // NOLINT
  constexpr std::size_t kBytes = 60'000;
  const std::uint64_t sent = harness::send_until_blocked(*this->pair_.a, kBytes);
  ASSERT_GT(sent, 1u);
  std::uint64_t accepted = sent;
  std::uint64_t seen = 0;
  const std::uint64_t total = sent + 20;
  ASSERT_TRUE(harness::pump_until(this->pair_, [&] {
    while (accepted < total && harness::send_numbered(*this->pair_.a, accepted, kBytes) ==
                                   transport::SendResult::kAccepted) {
      ++accepted;
    }
    while (const transport::Frame* frame = this->pair_.b->front()) {
      if (!harness::is_numbered(*frame, seen, kBytes)) {
        ADD_FAILURE() << "frame " << seen;
        return true;
      }
      this->pair_.b->pop();
      ++seen;
    }
    return seen == total;
  }));
  EXPECT_TRUE(this->pair_.a->status().ok());
}

TYPED_TEST_P(EndpointContract, FloodsBothWays) {
  using namespace syncline;  // NOLINT
  constexpr std::uint64_t kFrames = 1500;
  transport::Endpoint* ends[2] = {this->pair_.a.get(), this->pair_.b.get()};
  std::uint64_t sent[2] = {0, 0};
  std::uint64_t seen[2] = {0, 0};
  std::mt19937_64 random(5);
  const Nanos deadline = monotonic_now() + 3 * harness::kPatience;
  while (seen[0] < kFrames || seen[1] < kFrames) {
    ASSERT_LT(monotonic_now(), deadline) << "stuck at " << seen[0] << ", " << seen[1];
    for (int i = 0; i < 2; ++i) {
      for (auto burst = random() % 30; burst > 0 && sent[i] < kFrames; --burst) {
        const auto result = harness::send_numbered(*ends[i], sent[i], harness::flood_size(sent[i]));
        ASSERT_NE(result, transport::SendResult::kClosed);
        if (result == transport::SendResult::kWouldBlock) break;
        ++sent[i];
      }
      for (auto burst = random() % 30; burst > 0; --burst) {
        const transport::Frame* frame = ends[i]->front();
        if (frame == nullptr) break;
        ASSERT_TRUE(harness::is_numbered(*frame, seen[i], harness::flood_size(seen[i])))
            << "end " << i << ", frame " << seen[i];
        ends[i]->pop();
        ++seen[i];
      }
      ends[i]->progress(monotonic_now());
    }
  }
}

// An end whose own sends must go out before it reads on gets them out.
TYPED_TEST_P(EndpointContract, UnreadFramesDoNotBlockTheOtherWay) {
  using namespace syncline;  // NOLINT
  constexpr std::size_t kBytes = 128 * 1024;
  const std::uint64_t unread = harness::send_until_blocked(*this->pair_.a, kBytes);
  ASSERT_NE(harness::await_frame(this->pair_, *this->pair_.b), nullptr);
  constexpr std::uint64_t kFrames = 200;  // 25 MiB, several windows
  std::uint64_t sent = 0;
  std::uint64_t seen = 0;
  ASSERT_TRUE(harness::pump_until(this->pair_,
                                  [&] {
                                    while (sent < kFrames &&
                                           harness::send_numbered(*this->pair_.b, sent, kBytes) ==
                                               transport::SendResult::kAccepted) {
                                      ++sent;
                                    }
                                    while (const transport::Frame* frame = this->pair_.a->front()) {
                                      if (!harness::is_numbered(*frame, seen, kBytes))
                                        ADD_FAILURE() << "frame " << seen;
                                      this->pair_.a->pop();
                                      ++seen;
                                    }
                                    return seen == kFrames;
                                  }))
      << "sent " << sent << ", seen " << seen;
  for (std::uint64_t i = 0; i < unread; ++i) {
    const transport::Frame* frame = harness::await_frame(this->pair_, *this->pair_.b);
    ASSERT_NE(frame, nullptr);
    ASSERT_TRUE(harness::is_numbered(*frame, i, kBytes)) << "frame " << i;
    this->pair_.b->pop();
  }
}
