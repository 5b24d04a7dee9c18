#include "cluster/healer.h"

#include <algorithm>

namespace syncline::cluster {
namespace {

constexpr Nanos kHealConnectLimit = 100 * kMillisecond;
constexpr Nanos kHealBackoffMax = 50 * kMillisecond;
constexpr std::size_t kAdmissionBytesMax = 64;
constexpr Nanos kHealRoundLimit = kSecond;  // then a new dialer starts afresh

const Member& member_of(const MeshConfig& config, int rank) {
  return config.view.members[static_cast<std::size_t>(rank)];
}

class DialConnector final : public Connector {
 public:
  DialConnector(event::Poller& poller, const Clock& clock, DialOptions options)
      : dialer_(poller, clock, std::move(options)) {}
  void progress(Nanos now) override { dialer_.progress(now); }
  bool ended() const override { return dialer_.ended(); }
  Outcome take() override {
    auto socket = dialer_.take();
    if (socket.ok()) {
      return {std::move(socket.value().stream), ProbeResult::kAnswered};
    }
    const bool another_process =
        dialer_.reject() && dialer_.reject()->code == wire::RejectCode::kIncarnation;
    const bool gone = another_process || socket.status().code() == Code::kPeerLost;
    return {nullptr, gone ? ProbeResult::kRefused : ProbeResult::kNoAnswer};
  }

 private:
  Dialer dialer_;
};

}  // namespace

Healer::Healer(event::Poller& poller, const Clock& clock, MeshConfig config,
               std::unique_ptr<Acceptor> first,
               std::vector<std::unique_ptr<transport::Listener>> others)
    : poller_(poller), clock_(clock), config_(std::move(config)) {
  const auto own = addresses_of(member_of(config_, config_.rank));
  if (own.ok()) own_ = own.value();
  first->welcome_heals();
  acceptors_.push_back(std::move(first));
  for (auto& listener : others) {
    acceptors_.push_back(std::make_unique<Acceptor>(poller_, clock_, std::move(listener),
                                                    data_acceptor(config_),
                                                    [](const AuthenticatedSocket&) {}));
  }
  for (const auto& acceptor : acceptors_) {
    acceptor->set_on_accept([this, at = acceptor.get()](AuthenticatedSocket socket) {
      on_accept(*at, std::move(socket));
    });
  }
  if (!config_.outside.interfaces) return;
  carriers_ = std::make_unique<CarrierWatch>(poller_, own_,
                                             [this](int rail, bool up) { on_carrier(rail, up); });
}

Status Healer::prepare(int peer, LinkOptions& options) {
  auto addresses = addresses_of(member_of(config_, peer));
  if (!addresses.ok()) return addresses.status();
  const std::size_t rails = std::min(addresses.value().size(), own_.size());
  options.rails =
      static_cast<int>(std::clamp<std::size_t>(rails, 1, std::size_t{LinkStore::kRailsMax}));
  options.heals = true;
  options.on_destroy = [this, peer] { links_.erase(peer); };
  if (config_.rank > peer) {
    options.dial = [this, peer](int rail) { return dial(peer, rail); };
  } else {
    options.probe = [this, peer] {
      return std::make_unique<DialConnector>(poller_, clock_,
                                             options_for(peer, 0, wire::ConnectionRole::kProbe));
    };
  }
  addresses_[peer] = std::move(addresses).value();
  return {};
}

std::unique_ptr<Connector> Healer::dial(int peer, int rail) {
  if (carriers_ && !carriers_->is_up(rail)) return nullptr;
  return std::make_unique<DialConnector>(poller_, clock_,
                                         options_for(peer, rail, wire::ConnectionRole::kHeal));
}

DialOptions Healer::options_for(int peer, int rail, wire::ConnectionRole role) const {
  DialOptions options;
  options.addresses = {addresses_.at(peer)[static_cast<std::size_t>(rail)]};
  options.insecure = config_.insecure;
  options.refused_is_final = true;
  options.deadline = clock_.now() + kHealRoundLimit;
  options.connect_limit = kHealConnectLimit;
  options.backoff_max = kHealBackoffMax;
  if (own_.size() > 1) options.from = own_[static_cast<std::size_t>(rail)].with_port(0);
  options.outside = config_.outside;
  options.handshake = data_handshake(config_);
  options.handshake.role = role;
  options.handshake.rail = static_cast<std::uint16_t>(rail);
  options.handshake.peer_rank = peer;
  options.handshake.peer_incarnation = member_of(config_, peer).incarnation;
  return options;
}

void Healer::on_accept(Acceptor& acceptor, AuthenticatedSocket socket) {
  const auto link = links_.find(socket.peer_rank);
  const bool fits = link != links_.end() && socket.peer_rank > config_.rank &&
                    socket.peer_incarnation == member_of(config_, socket.peer_rank).incarnation;
  if (!fits) return acceptor.note_refusal(socket, "this rank expects no connection");
  if (socket.role != wire::ConnectionRole::kHeal) return admit_again(std::move(socket));
  link->second->attach(socket.rail, std::move(socket.stream));
}

// Its first connection broke on the way of the admission, when this rank's mesh was complete. It
// learns that it is admitted; the end of this connection then makes it heal the link.
void Healer::admit_again(AuthenticatedSocket socket) {
  admitting_.push_back(
      std::make_unique<ControlChannel>(poller_, std::move(socket), kAdmissionBytesMax));
  admitting_.back()->stop_reading_after(0);
  admitting_.back()->send(wire::encode_plain(wire::MembershipType::kAdmit));
}

// Inside poll(): the links are told later.
void Healer::on_carrier(int rail, bool up) {
  if (up) {
    for (const auto& [peer, addresses] : addresses_) {
      if (static_cast<std::size_t>(rail) >= addresses.size()) continue;
      carriers_->forget_neighbour(rail, addresses[static_cast<std::size_t>(rail)]);
    }
    return;
  }
  log_to(config_.log, "the interface of rail " + std::to_string(rail) + " (" +
                          own_[static_cast<std::size_t>(rail)].host() + ") lost its carrier");
  lost_rails_.push_back(rail);
}

void Healer::progress(Nanos now) {
  for (const auto& acceptor : acceptors_) acceptor->progress(now);
  admitting_.remove_if([](const std::unique_ptr<ControlChannel>& channel) {
    channel->progress();
    return !channel->status().ok() || !channel->has_unsent();
  });
  for (const int rail : lost_rails_) {
    for (const auto& [peer, link] : links_) {
      if (rail < link->link().rails()) link->rail_lost(rail, "its interface lost the carrier");
    }
  }
  lost_rails_.clear();
}

}  // namespace syncline::cluster
