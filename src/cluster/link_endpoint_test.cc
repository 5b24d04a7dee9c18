#include "cluster/link_endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <utility>

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

}  // namespace
}  // namespace syncline::cluster

using TcpFamilies = ::testing::Types<syncline::cluster::TcpPairs, syncline::cluster::Tcp6Pairs>;
INSTANTIATE_TYPED_TEST_SUITE_P(Tcp, EndpointContract, TcpFamilies);
