#include "tests/harness/healing_pair.h"

#include "session/settings.h"
#include "tests/harness/thread_job.h"

namespace syncline::harness {

HealingPair::HealingPair(Nanos silence) {
  const auto loopback = transport::tcp::parse_literal("127.0.0.1", 0).value();
  transport::tcp::Fd listeners[2];
  cluster::View view;
  view.view = 1;
  view.job = 5;
  for (int rank = 0; rank < 2; ++rank) {
    listeners[rank] = transport::tcp::listen_on(loopback).value();
    view.members.push_back(cluster::describe_self(rank));
  }
  proxy_ = std::make_unique<Proxy>(transport::tcp::local_address(listeners[0].get()));
  // Rank 1 dials rank 0, by way of the proxy.
  view.members[0].addresses = {proxy_->address().to_string()};
  view.members[1].addresses = {transport::tcp::local_address(listeners[1].get()).to_string()};
  event::NamedThread other("build", [&] { build(1, std::move(listeners[1]), view, silence); });
  build(0, std::move(listeners[0]), view, silence);
  other.join();
}

void HealingPair::build(int rank, transport::tcp::Fd listener, const cluster::View& view,
                        Nanos silence) {
  SessionOptions options = test_options();
  options.silence = std::chrono::milliseconds(silence / kMillisecond);
  auto context = session::make_context(options, rank);
  session::choose_transport(*context, "tcp", 2, transport::kFrameBytesMax);
  event::Poller& poller = context->engine->poller();
  cluster::MeshConfig mesh;
  mesh.view = view;
  mesh.rank = rank;
  mesh.peers = {1 - rank};
  mesh.timeout = 20 * kSecond;
  auto connected = cluster::connect_mesh(poller, clock_, mesh, std::move(listener)).value();
  auto healer =
      std::make_shared<cluster::Healer>(poller, clock_, mesh, std::move(connected.acceptor),
                                        std::vector<std::unique_ptr<transport::Listener>>());
  const int peer = 1 - rank;
  const cluster::Member& member = view.members[static_cast<std::size_t>(peer)];
  cluster::LinkOptions link;
  link.self_rank = rank;
  link.peer_rank = peer;
  link.peer_host = member.host_name;
  link.view = view.view;
  link.self_incarnation = view.members[static_cast<std::size_t>(rank)].incarnation;
  link.peer_incarnation = member.incarnation;
  link.silence = silence;
  link.suspect = INT64_MAX;
  (void)healer->prepare(peer, link);
  auto endpoint = std::make_unique<cluster::LinkEndpoint>(
      poller, clock_, std::move(connected.sockets.at(peer).stream), link);
  links_[rank] = endpoint.get();
  healer->add(peer, endpoint.get());
  std::vector<exec::Channel*> peers(2, nullptr);
  peers[static_cast<std::size_t>(peer)] =
      context->engine->add_channel(peer, "rank " + std::to_string(peer), std::move(endpoint));
  context->engine->add_ticker([each = healer.get()](Nanos now) {
    each->progress(now);
    return true;
  });
  auto impl = open_world(context, rank, std::move(peers));
  impl->wiring = std::move(healer);
  sessions_[rank] = std::make_unique<Session>(std::move(impl));
}

// Both leave at once, as ranks do.
HealingPair::~HealingPair() {
  event::NamedThread other("leave", [this] { sessions_[1].reset(); });
  sessions_[0].reset();
  other.join();
}

}  // namespace syncline::harness
