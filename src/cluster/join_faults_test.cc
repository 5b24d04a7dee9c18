// Joining a job over a network that fails, in virtual time. What these tests show the simulator
// (tests/sim) found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

#include "cluster/healer.h"
#include "cluster/mesh_builder.h"
#include "cluster/rendezvous_guest.h"
#include "cluster/rendezvous_host.h"
#include "transport/sim/network.h"

namespace syncline::cluster {
namespace {

using testing::HasSubstr;
using transport::sim::Network;

constexpr std::uint16_t kPort = 29500;

class JoinFaults : public testing::Test {
 protected:
  Outside outside(int host) {
    Outside out;
    out.connect = [this, host](const transport::tcp::Address& to, const transport::tcp::Address&) {
      return network_.connect(host, to);
    };
    out.random = [this](std::span<std::byte> bytes) {
      for (std::byte& each : bytes) each = static_cast<std::byte>(random_());
    };
    out.interfaces = false;
    return out;
  }
  std::unique_ptr<transport::Listener> listen(int host, std::uint16_t port) {
    return std::move(network_.listen(host, 0, port)).value();
  }
  template <class Condition, class Step>
  bool step_until(Condition condition, Step step, Nanos limit = 10 * kSecond) {
    for (const Nanos end = network_.now() + limit; network_.now() < end;) {
      if (condition()) return true;
      network_.advance(kMillisecond);
      step(network_.now());
    }
    return condition();
  }

  // -- rendezvous
  RendezvousConfig config(int world_size) {
    RendezvousConfig config;
    config.uri = "tcp://10.0.0.1:29500";
    config.world_size = world_size;
    config.run_id = "test";
    config.key = JobKey(JobKey::Bytes{7});
    config.timeout = 10 * kSecond;
    return config;
  }
  static Member member(int rank) {
    Member self;
    self.rank = rank;
    self.incarnation = 100 + static_cast<std::uint64_t>(rank);
    self.host_name = self.host_id = "h" + std::to_string(rank);
    self.addresses = {Network::address(rank, 0, 1000).to_string()};
    return self;
  }
  std::unique_ptr<RendezvousHost> host(RendezvousConfig with) {
    with.outside = outside(0);
    std::vector<std::unique_ptr<transport::Listener>> listeners;
    listeners.push_back(listen(0, kPort));
    return std::make_unique<RendezvousHost>(poller_, network_, std::move(listeners), with,
                                            member(0), network_.now() + with.timeout);
  }
  DialOptions rendezvous_options(RendezvousConfig with, int rank) {
    with.outside = outside(rank);
    DialOptions options = rendezvous_dial(with, member(rank), network_.now() + with.timeout);
    options.addresses = {Network::address(0, 0, kPort)};
    return options;
  }
  std::unique_ptr<RendezvousGuest> guest(const RendezvousConfig& with, int rank) {
    return std::make_unique<RendezvousGuest>(
        poller_, network_, rendezvous_options(with, rank), with.uri, with.timeout,
        [rank](const transport::tcp::Address&) -> Result<Member> { return member(rank); });
  }

  // -- mesh
  MeshConfig mesh_config(int rank) {
    MeshConfig config;
    config.view = View{1, 55, {member(0), member(1)}};
    config.rank = rank;
    config.peers = {1 - rank};
    config.key = JobKey(JobKey::Bytes{7});
    config.outside = outside(rank);
    return config;
  }
  // Rank 1's way to rank 0.
  std::unique_ptr<Dialer> dial_mesh(wire::ConnectionRole role) {
    DialOptions options;
    options.addresses = {Network::address(0, 0, 1000)};
    options.outside = outside(1);
    options.deadline = network_.now() + 2 * kSecond;
    options.handshake = data_handshake(mesh_config(1));
    options.handshake.role = role;
    options.handshake.peer_rank = 0;
    return std::make_unique<Dialer>(poller_, network_, options);
  }

  Network network_{1};
  std::mt19937_64 random_{1};
  event::Poller poller_;
};

TEST_F(JoinFaults, GuestWhoseConnectionBreaksBeforeTheTableComesBack) {
  const auto first = host(config(3));
  const auto second = guest(config(3), 1);
  const auto step = [&](Nanos now) {
    first->progress(now);
    second->progress(now);
  };
  ASSERT_TRUE(step_until([&] { return first->missing() == "rank 2 of 3"; }, step));
  network_.reset(0, 1, 0);
  ASSERT_TRUE(step_until([&] { return first->missing() == "ranks 1, 2 of 3"; }, step));
  ASSERT_TRUE(step_until([&] { return first->missing() == "rank 2 of 3"; }, step));
  const auto third = guest(config(3), 2);
  ASSERT_TRUE(step_until([&] { return first->ended() && second->ended() && third->ended(); },
                         [&](Nanos now) {
                           step(now);
                           third->progress(now);
                         }));
  const auto view = first->take();
  ASSERT_TRUE(view.ok()) << view.status().to_string();
  EXPECT_EQ(second->take().value(), view.value());
  EXPECT_EQ(third->take().value(), view.value());
}

TEST_F(JoinFaults, GuestDoesNotWaitForARankZeroThatIsGone) {
  auto first = host(config(3));
  const auto second = guest(config(3), 1);
  ASSERT_TRUE(step_until([&] { return first->missing() == "rank 2 of 3"; },
                         [&](Nanos now) {
                           first->progress(now);
                           second->progress(now);
                         }));
  network_.crash(0, false);
  ASSERT_TRUE(step_until([&] { return second->ended(); }, [&](Nanos now) { second->progress(now); },
                         kSecond));
  const auto view = second->take();
  EXPECT_EQ(view.status().code(), Code::kPeerLost);
  EXPECT_EQ(view.status().peer(), 0);
  EXPECT_THAT(view.status().message(), HasSubstr("rank 0 left the rendezvous at tcp://10.0.0.1"));
}

TEST_F(JoinFaults, WhoDoesNotConfirmTheTableIsNamed) {
  const auto first = host(config(2));
  Dialer dialer(poller_, network_, rendezvous_options(config(2), 1));
  const auto step = [&](Nanos now) {
    first->progress(now);
    dialer.progress(now);
  };
  ASSERT_TRUE(step_until([&] { return dialer.ended(); }, step));
  ControlChannel channel(poller_, std::move(dialer.take()).value(), 8192);
  channel.send(wire::encode_join(member(1)));
  ASSERT_TRUE(step_until([&] { return first->ended(); },
                         [&](Nanos now) {
                           first->progress(now);
                           channel.progress();
                         },
                         12 * kSecond));
  const auto view = first->take();
  EXPECT_EQ(view.status().code(), Code::kTimeout);
  EXPECT_THAT(view.status().message(),
              HasSubstr("rank 1 of 2 did not confirm the table at tcp://10.0.0.1:29500"));
}

TEST_F(JoinFaults, MeshTakesNoConnectionThatWouldHealALink) {
  MeshBuilder builder(poller_, network_, mesh_config(0), listen(0, 1000));
  const auto heal = dial_mesh(wire::ConnectionRole::kHeal);
  const auto step = [&](Nanos now) {
    builder.progress(now);
    heal->progress(now);
  };
  ASSERT_TRUE(step_until([&] { return heal->reject().has_value(); }, step));
  EXPECT_EQ(heal->reject()->code, wire::RejectCode::kBusy);
  EXPECT_FALSE(builder.ended());
  const auto data = dial_mesh(wire::ConnectionRole::kData);
  ASSERT_TRUE(step_until([&] { return builder.ended(); },
                         [&](Nanos now) {
                           step(now);
                           data->progress(now);
                         }));
  // The link that comes of it takes them.
  Mesh mesh = std::move(builder.take()).value();
  Healer healer(poller_, network_, mesh_config(0), std::move(mesh.acceptor), {});
  ASSERT_TRUE(step_until([&] { return heal->ended(); },
                         [&](Nanos now) {
                           healer.progress(now);
                           heal->progress(now);
                         }));
  EXPECT_TRUE(heal->take().ok());
}

TEST_F(JoinFaults, WhoMissedItsAdmissionIsAdmittedAgain) {
  MeshBuilder builder(poller_, network_, mesh_config(0), listen(0, 1000));
  auto dialer = dial_mesh(wire::ConnectionRole::kData);
  ASSERT_TRUE(step_until([&] { return builder.ended(); },
                         [&](Nanos now) {
                           builder.progress(now);
                           dialer->progress(now);
                         }));
  Mesh mesh = std::move(builder.take()).value();
  network_.reset(0, 1, 0);  // before rank 1 reads
  Healer healer(poller_, network_, mesh_config(0), std::move(mesh.acceptor), {});
  LinkOptions options;
  options.peer_rank = 1;
  options.self_incarnation = 100;
  options.peer_incarnation = 101;
  ASSERT_TRUE(healer.prepare(1, options).ok());
  LinkEndpoint link(poller_, network_, std::move(mesh.sockets.at(1).stream), std::move(options));
  healer.add(1, &link);
  MeshBuilder other(poller_, network_, mesh_config(1), listen(1, 1000));
  ASSERT_TRUE(step_until([&] { return other.ended(); },
                         [&](Nanos now) {
                           healer.progress(now);
                           other.progress(now);
                         }));
  EXPECT_TRUE(other.take().ok());
}

}  // namespace
}  // namespace syncline::cluster
