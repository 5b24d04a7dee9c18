#include "cluster/link_endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <utility>
#include <vector>

#include "cluster/link_test_options.h"
#include "tests/harness/endpoint_contract.h"
#include "transport/tcp/socket.h"

namespace syncline::cluster {
namespace {

namespace tcp = transport::tcp;

struct Listener {
  explicit Listener(const char* host) {
    auto fd_or = tcp::listen_on(tcp::parse_literal(host, 0).value());
    EXPECT_TRUE(fd_or.ok()) << fd_or.status().to_string();
    fd = std::move(fd_or).value();
    address = tcp::local_address(fd.get());
  }
  tcp::Fd fd;
  tcp::Address address;
};

std::pair<tcp::Fd, tcp::Fd> connected_sockets(const Listener& listener) {
  auto client = tcp::connect_any({listener.address}, monotonic_now() + 5 * kSecond);
  EXPECT_TRUE(client.ok()) << client.status().to_string();
  auto server = tcp::accept_from(listener.fd.get());
  EXPECT_TRUE(server.ok() && server->has_value());
  return {std::move(client).value(), std::move(server).value().value()};
}

// `b` "listens" on an own address that closes with it.
harness::ConnectedPair make_pair_on(const char* host) {
  const Listener meeting(host);
  auto [fd_a, fd_b] = connected_sockets(meeting);
  auto listener_b = std::make_shared<Listener>(host);
  harness::ConnectedPair pair;
  auto handle_b = std::make_shared<tcp::Fd>(::dup(fd_b.get()));
  LinkOptions options_a = options_of(0, 1);
  options_a.probe = ListenerProbe::of(listener_b->address);
  pair.a = std::move(make_link_endpoint(*pair.poller_a, kClock, fd_a.release(), options_a)).value();
  pair.b = std::move(make_link_endpoint(*pair.poller_b, kClock, fd_b.release(), options_of(1, 0)))
               .value();
  pair.kill_b = [listener_b, handle_b] {
    listener_b->fd.reset();
    ::shutdown(handle_b->get(), SHUT_RDWR);
  };
  return pair;
}

struct TcpPairs {
  static harness::ConnectedPair make() { return make_pair_on("127.0.0.1"); }
};
struct Tcp6Pairs {
  static harness::ConnectedPair make() { return make_pair_on("::1"); }
};

// What yields waits with its sender while the wire is busy; what is urgent goes behind what the
// wire has, not behind all that yields.
TEST(LinkEndpoint, YieldingFramesLeaveRoomForOthers) {
  const Listener meeting("127.0.0.1");
  auto [fd_a, fd_b] = connected_sockets(meeting);
  const int small = 16 << 10;
  ::setsockopt(fd_a.get(), SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  ::setsockopt(fd_b.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  event::Poller poller_a, poller_b;
  auto a = make_link_endpoint(poller_a, kClock, fd_a.release(), options_of(0, 1)).value();
  auto b = make_link_endpoint(poller_b, kClock, fd_b.release(), options_of(1, 0)).value();
  const std::vector<std::byte> payload(32 << 10);
  transport::FrameHeader bulk;
  bulk.length = static_cast<std::uint32_t>(payload.size());
  bulk.yields = true;
  transport::FrameHeader urgent;
  urgent.op = 1000;
  while (a->try_send(bulk, payload.data()) == transport::SendResult::kAccepted) {
    ASSERT_LT(++bulk.op, 20u) << "yielding frames fill the link's store";
  }
  ASSERT_EQ(a->try_send(urgent, nullptr), transport::SendResult::kAccepted);
  EXPECT_EQ(a->try_send(bulk, payload.data()), transport::SendResult::kWouldBlock);
  EXPECT_EQ(a->arm(), transport::Armed::kYes) << "nothing to do until the wire takes more";
  bool told = false;
  std::vector<std::uint64_t> seen;
  const Nanos deadline = monotonic_now() + 10 * kSecond;
  while (!told || seen.empty() || seen.back() != urgent.op) {
    ASSERT_LT(monotonic_now(), deadline) << seen.size() << " frames, told " << told;
    poller_a.poll(0);
    told = told || a->arm() == transport::Armed::kNo;
    while (const transport::Frame* frame = b->front()) {
      seen.push_back(frame->header.op);
      b->pop();
    }
  }
  EXPECT_EQ(seen.size(), bulk.op + 1);
  EXPECT_EQ(a->try_send(bulk, payload.data()), transport::SendResult::kAccepted);
}

}  // namespace
}  // namespace syncline::cluster

using TcpFamilies = ::testing::Types<syncline::cluster::TcpPairs, syncline::cluster::Tcp6Pairs>;
INSTANTIATE_TYPED_TEST_SUITE_P(Tcp, EndpointContract, TcpFamilies);
