#include "tests/sim/joining.h"

namespace syncline::sim {
cluster::JobKey key_of(const Identity& identity) {
  cluster::JobKey::Bytes bytes;
  bytes.fill(identity.key_fill);
  return cluster::JobKey(bytes);
}

Joining::Joining(Network& network, event::Poller& poller, const Identity& identity,
                 std::mt19937_64& random, cluster::LogLine log)
    : network_(network), poller_(poller), identity_(identity), log_(std::move(log)) {
  config_.uri = "tcp://" + Network::address(0, 0, kRendezvousPort).to_string();
  config_.world_size = identity.world_size;
  config_.run_id = identity.run_id;
  config_.key = key_of(identity);
  config_.timeout = kMeetingLimit;
  config_.log = log_;
  config_.outside.connect = [&network, from = identity.host](const transport::tcp::Address& to,
                                                             const transport::tcp::Address&) {
    return network.connect(from, to);
  };
  config_.outside.random = [&random](std::span<std::byte> out) {
    for (std::byte& each : out) each = static_cast<std::byte>(random());
  };
  config_.outside.interfaces = false;
  self_.rank = identity.rank;
  self_.incarnation = config_.outside.fresh_incarnation();
  self_.pid = static_cast<int>(self_.incarnation % 30'000);
  self_.launcher_pid = 1;
  self_.host_name = "h" + std::to_string(identity.host);
  self_.host_id = "boot-" + std::to_string(identity.host);
  deadline_ = network.now() + kMeetingLimit;
  if (identity.rank == 0) {
    host();
  } else {
    visit();
  }
}

void Joining::host() {
  auto listener = network_.listen(identity_.host, 0, kRendezvousPort);
  if (listener.ok()) status_ = open_data();
  if (!listener.ok()) status_ = listener.status();
  if (!status_.ok()) return;
  std::vector<std::unique_ptr<transport::Listener>> listeners;
  listeners.push_back(std::move(listener).value());
  host_ = std::make_unique<cluster::RendezvousHost>(poller_, network_, std::move(listeners),
                                                    config_, self_, deadline_);
}

void Joining::visit() {
  cluster::DialOptions options = cluster::rendezvous_dial(config_, self_, deadline_);
  options.addresses = {Network::address(0, 0, kRendezvousPort)};
  guest_ = std::make_unique<cluster::RendezvousGuest>(
      poller_, network_, std::move(options), config_.uri, config_.timeout,
      [this](const transport::tcp::Address&) -> Result<cluster::Member> {
        if (const Status status = open_data(); !status.ok()) return status;
        return self_;
      });
}

// One listener for each rail.
Status Joining::open_data() {
  data_listeners_.clear();
  self_.addresses.clear();
  for (int rail = 0; rail < identity_.rails; ++rail) {
    auto listener = network_.listen(identity_.host, rail);
    if (!listener.ok()) return listener.status();
    self_.addresses.push_back(listener.value()->address().to_string());
    data_listeners_.push_back(std::move(listener).value());
  }
  return {};
}

void Joining::progress(Nanos now) {
  if (ended()) return;
  if (host_) {
    host_->progress(now);
    if (host_->ended()) met(host_->take());
  } else if (guest_) {
    guest_->progress(now);
    if (guest_->ended()) met(guest_->take());
  } else {
    builder_->progress(now);
    if (builder_->ended()) meshed(builder_->take());
  }
}

void Joining::met(Result<cluster::View> view) {
  if (view.ok()) {
    view_ = std::move(view).value();
    mesh_config_.view = *view_;
    mesh_config_.rank = identity_.rank;
    for (int peer = 0; peer < identity_.world_size; ++peer) {
      if (peer != identity_.rank) mesh_config_.peers.push_back(peer);
    }
    mesh_config_.run_id = config_.run_id;
    mesh_config_.key = config_.key;
    mesh_config_.timeout = kMeshLimit;
    mesh_config_.log = log_;
    mesh_config_.outside = config_.outside;
    deadline_ = network_.now() + kMeshLimit;
    builder_ = std::make_unique<cluster::MeshBuilder>(poller_, network_, mesh_config_,
                                                      std::move(data_listeners_.front()));
    data_listeners_.erase(data_listeners_.begin());
  } else {
    status_ = view.status();
  }
  host_.reset();
  guest_.reset();
}

void Joining::meshed(Result<cluster::Mesh> mesh) {
  if (mesh.ok()) {
    mesh_ = std::move(mesh).value();
    joined_ = true;
  } else {
    status_ = mesh.status();
  }
  builder_.reset();
}

bool Joining::has_table() const {
  return view_ || (host_ && !host_->gathering()) || (guest_ && guest_->has_table());
}

std::vector<std::unique_ptr<transport::Listener>> Joining::take_other_listeners() {
  return std::move(data_listeners_);
}

std::string Joining::waiting() const {
  const std::string rank = "rank " + std::to_string(identity_.rank);
  if (host_) return rank + " waits for " + host_->missing();
  if (guest_) return guest_->waiting_for();
  return rank + " makes its mesh";
}

}  // namespace syncline::sim
