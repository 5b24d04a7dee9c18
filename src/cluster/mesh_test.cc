#include "cluster/mesh.h"

#include <sys/socket.h>

#include "cluster/dialer.h"
#include "cluster/job_harness_test.h"

namespace syncline::cluster {
namespace {

using testing::HasSubstr;
using namespace testing_job;  // NOLINT

TEST(Mesh, EveryPairIsConnectedWithItself) {
  for (const int world_size : {2, 4}) {
    Place place;
    auto ranks = job(world_size, place);
    for (auto& rank : ranks) rank.mesh = true;
    run(ranks);
    for (auto& rank : ranks) {
      ASSERT_TRUE(rank.meshed.has_value());
      ASSERT_TRUE(rank.meshed->ok()) << rank.meshed->status().to_string();
    }
    // Each pair's two ends are one connection: what one writes the other reads.
    for (int a = 0; a < world_size; ++a) {
      for (int b = 0; b < world_size; ++b) {
        if (a == b) continue;
        auto& from = ranks[a].meshed->value().sockets.at(b);
        auto& to = ranks[b].meshed->value().sockets.at(a);
        EXPECT_EQ(from.peer_rank, b);
        EXPECT_EQ(from.peer_incarnation, ranks[0].joined->value().view.members[b].incarnation);
        EXPECT_EQ(from.keys.send, to.keys.receive);
        const char sent = static_cast<char>('a' + 8 * a + b);
        ASSERT_EQ(::send(from.stream->fd(), &sent, 1, 0), 1);
        char got = 0;
        ASSERT_EQ(::recv(to.stream->fd(), &got, 1, 0), 1);
        EXPECT_EQ(got, sent);
      }
    }
  }
}

View view_of_two(const transport::tcp::Address& listener) {
  View view{1, 55, {describe_self(0), describe_self(1)}};
  view.members[0].addresses = {listener.to_string()};
  view.members[1].addresses = {"127.0.0.1:1"};
  return view;
}

MeshConfig config_of(const View& view, int rank) {
  MeshConfig config;
  config.view = view;
  config.rank = rank;
  config.peers = {1 - rank};
  config.key = key(7);
  config.timeout = 10 * kSecond;
  return config;
}

TEST(Mesh, PeerThatNeverComesIsNamed) {
  Place place;
  event::Poller poller;
  MeshConfig config = config_of(view_of_two(place.address), 0);
  config.timeout = 200 * kMillisecond;
  const auto mesh = connect_mesh(poller, MonotonicClock(), config, std::move(place.listener));
  EXPECT_EQ(mesh.status().code(), Code::kTimeout);
  EXPECT_EQ(mesh.status().peer(), 1);
  EXPECT_THAT(mesh.status().message(), HasSubstr("rank 1 on "));
}

TEST(Mesh, DeadPeerIsLostAtOnce) {
  Place place;
  const View view = view_of_two(place.address);
  place.listener.reset();
  Place own;
  event::Poller poller;
  const Nanos start = monotonic_now();
  const auto mesh =
      connect_mesh(poller, MonotonicClock(), config_of(view, 1), std::move(own.listener));
  EXPECT_EQ(mesh.status().code(), Code::kPeerLost);
  EXPECT_EQ(mesh.status().peer(), 0);
  EXPECT_LT(monotonic_now() - start, 5 * kSecond);
}

// The dead one should have dialled: its closed listener gives it away.
TEST(Mesh, DeadDialerIsLostSoon) {
  Place place;
  Place gone;
  View view = view_of_two(place.address);
  view.members[1].addresses = {gone.address.to_string()};
  gone.listener.reset();
  event::Poller poller;
  const auto mesh =
      connect_mesh(poller, MonotonicClock(), config_of(view, 0), std::move(place.listener));
  EXPECT_EQ(mesh.status().code(), Code::kPeerLost);
  EXPECT_EQ(mesh.status().peer(), 1);
  EXPECT_THAT(mesh.status().message(), HasSubstr("the process is gone"));
}

TEST(Mesh, AnotherProcessAtTheAddressIsALostPeer) {
  Place place;
  View view = view_of_two(place.address);
  event::Poller host_poller;
  event::Poller poller;
  MonotonicClock clock;
  AcceptorOptions options;
  options.handshake = data_handshake(config_of(view, 0));
  options.handshake.incarnation += 1;  // a later process of rank 0
  Acceptor acceptor(poller, clock, std::move(place.listener), options, [](AuthenticatedSocket) {});
  event::NamedThread thread("dialer", [&] {
    Place own;
    const auto mesh = connect_mesh(host_poller, clock, config_of(view, 1), std::move(own.listener));
    EXPECT_EQ(mesh.status().code(), Code::kPeerLost);
    EXPECT_THAT(mesh.status().message(), HasSubstr("is gone; another one has its address"));
    poller.ring();
  });
  while (acceptor.stats().refused == 0) {
    poller.poll(kSecond);
    acceptor.progress(clock.now());
  }
  thread.join();
}

TEST(Mesh, ListenerStaysForProbesAndRefusesTheRest) {
  Place place;
  Lines lines;
  const View view = view_of_two(place.address);
  MonotonicClock clock;
  event::Poller poller;
  event::Poller peer_poller;
  MeshConfig config = config_of(view, 0);
  config.log = lines.sink();
  std::optional<Result<Mesh>> other;
  event::NamedThread thread("rank1", [&] {
    Place own;
    other.emplace(connect_mesh(peer_poller, clock, config_of(view, 1), std::move(own.listener)));
  });
  auto mesh = connect_mesh(poller, clock, config, std::move(place.listener));
  thread.join();
  ASSERT_TRUE(mesh.ok());
  ASSERT_TRUE(other->ok());
  Acceptor& acceptor = *mesh.value().acceptor;

  const auto dial = [&](wire::ConnectionRole role) {
    DialOptions options;
    options.addresses = {place.address};
    options.deadline = clock.now() + 10 * kSecond;
    options.handshake = data_handshake(config_of(view, 1));
    options.handshake.role = role;
    options.handshake.peer_rank = 0;
    options.handshake.peer_incarnation = view.members[0].incarnation;
    Dialer dialer(poller, clock, options);
    const auto before = acceptor.stats();
    while (!dialer.ended() || (acceptor.stats().probes == before.probes &&
                               acceptor.stats().refused == before.refused)) {
      poller.poll(kSecond);
      dialer.progress(clock.now());
      acceptor.progress(clock.now());
    }
    return dialer.take().ok();
  };
  EXPECT_TRUE(dial(wire::ConnectionRole::kProbe));
  EXPECT_EQ(acceptor.stats().probes, 1u);
  EXPECT_TRUE(dial(wire::ConnectionRole::kData));  // proves the key, but nobody wants it
  EXPECT_THAT(lines.text(), HasSubstr("rank 1: this rank expects no connection"));
}

}  // namespace
}  // namespace syncline::cluster
