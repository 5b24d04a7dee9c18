#include "tests/sim/process.h"

#include "session/settings.h"

namespace syncline::sim {

SimProcess::SimProcess(Network& network, const Identity& identity, std::uint64_t seed, Log log)
    : network_(network),
      rank_(identity.rank),
      log_(std::move(log)),
      random_(seed),
      identity_(identity),
      peers_(static_cast<std::size_t>(identity.world_size), nullptr) {
  exec::EngineOptions engine;
  engine.rank = rank_;
  engine.silence = kSilence;
  engine.stall = 0;
  engine.log = log_;
  engine.stepped_by = &network_;
  context_ = std::make_shared<SessionContext>();
  context_->engine = std::make_shared<exec::Engine>(std::move(engine));
  session::choose_transport(*context_, "tcp", 1, transport::kFrameBytesMax);
  joining_ =
      std::make_unique<Joining>(network_, context_->engine->poller(), identity_, random_, log_);
  incarnation_ = joining_->incarnation();
}

void SimProcess::join() {
  joining_->progress(network_.now());
  had_table_ |= joining_->has_table();
  if (joining_->view() != nullptr && !view_) view_ = *joining_->view();
  if (!joining_->ended()) return;
  join_status_ = joining_->status();
  if (!join_status_.ok()) return die();
  const std::unique_ptr<Joining> ended = std::move(joining_);
  cluster::Mesh mesh = ended->take_mesh();
  healer_ =
      std::make_unique<cluster::Healer>(context_->engine->poller(), network_, ended->mesh_config(),
                                        std::move(mesh.acceptor), ended->take_other_listeners());
  for (auto& [peer, socket] : mesh.sockets) {
    const auto& member = view_->members[static_cast<std::size_t>(peer)];
    if (socket.peer_incarnation != member.incarnation) wrong_peer_ = peer;
    link_to(std::move(socket));
  }
  context_->engine->add_ticker([this](Nanos now) {
    healer_->progress(now);
    return true;
  });
  on_joined(std::move(peers_));
}

void SimProcess::link_to(cluster::AuthenticatedSocket socket) {
  const int peer = socket.peer_rank;
  cluster::LinkOptions options;
  options.self_rank = rank_;
  options.peer_rank = peer;
  options.peer_host = "h" + std::to_string(peer);
  options.view = view_->view;
  options.self_incarnation = incarnation_;
  options.peer_incarnation = view_->members[static_cast<std::size_t>(peer)].incarnation;
  options.silence = kSilence;
  options.suspect = INT64_MAX;
  options.log = log_;
  if (const Status status = healer_->prepare(peer, options); !status.ok()) log_(status.message());
  options.on_destroy = [this, peer, destroy = options.on_destroy] {
    links_.erase(peer);
    destroy();
  };
  auto link = std::make_unique<cluster::LinkEndpoint>(context_->engine->poller(), network_,
                                                      std::move(socket.stream), std::move(options));
  healer_->add(peer, link.get());
  links_[peer] = link.get();
  peers_[static_cast<std::size_t>(peer)] = context_->engine->add_channel(
      peer, "rank " + std::to_string(peer) + " (h" + std::to_string(peer) + ")", std::move(link));
}

void SimProcess::die() {
  joining_.reset();
  on_death();
  context_.reset();
  healer_.reset();
}

}  // namespace syncline::sim
