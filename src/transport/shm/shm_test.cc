#include "transport/shm/shm.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "event/thread.h"
#include "tests/harness/endpoint_contract.h"

namespace syncline::harness {
namespace {

using transport::shm::Endpoints;
using transport::shm::Listener;
using transport::shm::Peer;
using transport::shm::Self;

constexpr std::size_t kCapacity = 1 << 20;

Self self_of(int rank, event::Poller& poller) {
  Self self;
  self.rank = rank;
  self.incarnation = 100 + static_cast<std::uint64_t>(rank);
  self.token.fill(std::byte{7});
  self.ring_capacity = kCapacity;
  self.poller = &poller;
  return self;
}

Peer peer_of(int rank, const Listener& listener) {
  return {rank, 100 + static_cast<std::uint64_t>(rank), listener.name(),
          "rank " + std::to_string(rank)};
}

struct Outcome {
  Result<Endpoints> a = Status(Code::kInternal, "not run");
  Result<Endpoints> b = Status(Code::kInternal, "not run");
};

Outcome connect_two(const Self& a, const Self& b, Nanos patience = 10 * kSecond) {
  auto listener_a = Listener::open();
  auto listener_b = Listener::open();
  Outcome outcome;
  const Nanos deadline = monotonic_now() + patience;
  event::NamedThread other("shm-b", [&] {
    outcome.b = connect(*listener_b.value(), b, {peer_of(a.rank, *listener_a.value())}, deadline);
  });
  outcome.a = connect(*listener_a.value(), a, {peer_of(b.rank, *listener_b.value())}, deadline);
  other.join();
  return outcome;
}

struct ShmPairs {
  static ConnectedPair make() {
    ConnectedPair pair;
    Outcome outcome = connect_two(self_of(0, *pair.poller_a), self_of(1, *pair.poller_b));
    if (!outcome.a.ok() || !outcome.b.ok())
      throw Error(outcome.a.ok() ? outcome.b.status() : outcome.a.status());
    pair.a = std::move(outcome.a->at(1));
    pair.b = std::move(outcome.b->at(0));
    return pair;
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Shm, EndpointContract, ShmPairs);

TEST(Shm, RefusesARankOfAnotherJob) {
  event::Poller poller_a;
  event::Poller poller_b;
  Self stranger = self_of(1, poller_b);
  stranger.token.fill(std::byte{8});
  const Outcome outcome = connect_two(self_of(0, poller_a), stranger, 300 * kMillisecond);
  EXPECT_EQ(outcome.a.status().code(), Code::kTimeout);
  EXPECT_FALSE(outcome.b.ok());
}

TEST(Shm, IgnoresForeignBytesOnItsSocket) {
  event::Poller poller_a;
  event::Poller poller_b;
  auto listener_a = Listener::open();
  auto listener_b = Listener::open();
  const int intruder = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string& name = listener_a.value()->name();
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  ASSERT_EQ(::connect(intruder, reinterpret_cast<sockaddr*>(&address),
                      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())),
            0);
  ASSERT_EQ(::send(intruder, "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL), 18);

  const Nanos deadline = monotonic_now() + 10 * kSecond;
  Result<Endpoints> b = Status(Code::kInternal, "not run");
  event::NamedThread other("shm-b", [&] {
    b = connect(*listener_b.value(), self_of(1, poller_b), {peer_of(0, *listener_a.value())},
                deadline);
  });
  auto a = connect(*listener_a.value(), self_of(0, poller_a), {peer_of(1, *listener_b.value())},
                   deadline);
  other.join();
  ::close(intruder);
  EXPECT_TRUE(a.ok()) << a.status().to_string();
  EXPECT_TRUE(b.ok()) << b.status().to_string();
}

}  // namespace
}  // namespace syncline::harness
