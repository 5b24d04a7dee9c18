// The contract suite that every transport passes (transport/endpoint.h). A transport's unit test
// says:
//
//   struct ShmPairs {
//     static harness::ConnectedPair make();
//   };
//   INSTANTIATE_TYPED_TEST_SUITE_P(Shm, EndpointContract, ShmPairs);
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/asymmetric_fence.h"
#include "base/clock.h"
#include "event/poller.h"
#include "event/thread.h"
#include "transport/endpoint.h"

namespace syncline::harness {

// Two ends of one connection: `a` belongs to rank 0, `b` to rank 1, both open, each with the poller
// that wakes it. The suite may destroy the ends in any order; pollers go last.
struct ConnectedPair {
  std::unique_ptr<event::Poller> poller_a = std::make_unique<event::Poller>();
  std::unique_ptr<event::Poller> poller_b = std::make_unique<event::Poller>();
  std::shared_ptr<void> keep;  // whatever else has to live as long as the ends
  std::unique_ptr<transport::Endpoint> a;
  std::unique_ptr<transport::Endpoint> b;
  // b's process dies: no goodbye. May destroy b. Empty: the transport's peers cannot die alone.
  std::function<void()> kill_b;
};

inline constexpr Nanos kPatience = 20 * kSecond;

// Payload of frame number `number`: different bytes for each number and place.
inline std::vector<std::byte> pattern(std::uint64_t number, std::size_t bytes) {
  std::vector<std::byte> out(bytes);
  std::uint64_t state = number * 0x9e3779b97f4a7c15u + 1;
  for (std::size_t i = 0; i < bytes; i += 8) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    std::memcpy(out.data() + i, &state, std::min<std::size_t>(8, bytes - i));
  }
  return out;
}

inline transport::FrameHeader numbered(std::uint64_t number, std::size_t bytes) {
  transport::FrameHeader header;
  header.comm = 7;
  header.op = number;
  header.step = static_cast<std::uint32_t>(number % 5);
  header.segment = static_cast<std::uint32_t>(number % 11);
  header.length = static_cast<std::uint32_t>(bytes);
  return header;
}

inline transport::SendResult send_numbered(transport::Endpoint& from, std::uint64_t number,
                                           std::size_t bytes) {
  const std::vector<std::byte> payload = pattern(number, bytes);
  return from.try_send(numbered(number, bytes), payload.data());
}

// True if the frame is exactly what send_numbered() sent.
inline bool is_numbered(const transport::Frame& frame, std::uint64_t number, std::size_t bytes) {
  const transport::FrameHeader& header = frame.header;
  if (header.op != number || header.length != bytes || header.comm != 7) return false;
  if (header.step != number % 5 || header.segment != number % 11) return false;
  if (header.type != transport::FrameType::kData || header.has_fingerprint) return false;
  const std::vector<std::byte> expected = pattern(number, bytes);
  return bytes == 0 || std::memcmp(frame.payload, expected.data(), bytes) == 0;
}

// One progress pass of an end; waits up to a millisecond if `idle`.
inline void pump(transport::Endpoint* end, event::Poller& poller, bool idle = true) {
  if (end != nullptr) end->progress(monotonic_now());
  poller.poll(idle ? kMillisecond / 4 : 0);
}

// As the engine does before it sleeps.
inline bool may_sleep(transport::Endpoint& end) {
  const transport::Armed armed = end.arm();
  if (armed != transport::Armed::kOnceFenced) return armed == transport::Armed::kYes;
  heavy_fence();
  return end.stays_armed();
}

inline bool pump_until(ConnectedPair& pair, const std::function<bool()>& done,
                       Nanos limit = kPatience) {
  const Nanos deadline = monotonic_now() + limit;
  while (!done()) {
    if (monotonic_now() > deadline) return false;
    pump(pair.a.get(), *pair.poller_a);
    pump(pair.b.get(), *pair.poller_b);
  }
  return true;
}

inline const transport::Frame* await_frame(ConnectedPair& pair, transport::Endpoint& at) {
  const transport::Frame* frame = nullptr;
  pump_until(pair, [&] { return (frame = at.front()) != nullptr; });
  return frame;
}

// Sends numbered frames of `bytes` until the transport has no more room; returns how many.
inline std::uint64_t send_until_blocked(transport::Endpoint& from, std::size_t bytes) {
  std::uint64_t sent = 0;
  while (sent * bytes < (std::size_t{256} << 20)) {
    if (send_numbered(from, sent, bytes) != transport::SendResult::kAccepted) return sent;
    ++sent;
  }
  ADD_FAILURE() << "no back-pressure after 256 MiB";
  return sent;
}

// Sizes of a flood: deterministic, mostly small, sometimes the largest.
inline std::size_t flood_size(std::uint64_t number) {
  std::mt19937_64 random(number);
  switch (random() % 8) {
    case 0:
      return transport::kFrameBytesMax - random() % 3;
    case 1:
    case 2:
      return 100'000 + random() % 50'000;
    case 3:
      return 0;
    default:
      return random() % 9000;
  }
}

}  // namespace syncline::harness

template <class Pairs>
class EndpointContract : public ::testing::Test {
 protected:
  syncline::harness::ConnectedPair pair_ = Pairs::make();
};
TYPED_TEST_SUITE_P(EndpointContract);

#include "tests/harness/endpoint_contract_cases.h"
#include "tests/harness/endpoint_contract_ends.h"

REGISTER_TYPED_TEST_SUITE_P(EndpointContract, KeepsOrderAndFields, CarriesEverySize,
                            FrontStaysUntilPop, CarriesFingerprints, PushesBackAndRecovers,
                            FloodsBothWays, UnreadFramesDoNotBlockTheOtherWay,
                            WakesForFrameFromAnotherThread, WakesForRoom, HearsAnIdlePeer,
                            GoodbyeDeliversEverything, DestructionSaysGoodbye, BothLeaveAtOnce,
                            CloseIsIdempotentAndFinal, AnyTeardownOrder, DeathIsNoticedAndNamed);
