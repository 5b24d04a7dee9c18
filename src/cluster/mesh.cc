#include "cluster/mesh.h"

#include <algorithm>
#include <list>
#include <optional>
#include <set>

#include "base/assert.h"
#include "cluster/control_channel.h"
#include "cluster/dialer.h"

namespace syncline::cluster {
namespace {

using transport::tcp::Address;

constexpr Nanos kMeshPollSlice = 50 * kMillisecond;
constexpr Nanos kAbsenceProbeInterval = 500 * kMillisecond;
constexpr Nanos kAdmitLimit = 5 * kSecond;
constexpr std::size_t kMessageBytesMax = 2048;

// Confined. One call of connect_mesh().
class MeshBuilder {
 public:
  MeshBuilder(event::Poller& poller, const Clock& clock, const MeshConfig& config)
      : poller_(poller), clock_(clock), config_(config), deadline_(clock.now() + config.timeout) {}

  Result<Mesh> run(transport::tcp::Fd listener) {
    listen(std::move(listener));
    for (const int peer : config_.peers) {
      SYNCLINE_ASSERT(
          peer >= 0 && peer < static_cast<int>(config_.view.members.size()) && peer != config_.rank,
          "peers are ranks of the view");
      if (peer > config_.rank) {
        awaited_.insert(peer);
      } else if (const Status status = dial(peer); !status.ok()) {
        return status;
      }
    }
    while (!complete()) {
      const Nanos now = clock_.now();
      if (const Status status = progress(now); !status.ok()) return status;
      if (const Status status = probe_awaited(now); !status.ok()) return status;
      if (complete()) break;
      if (now >= deadline_) return timed_out();
      poller_.poll(kMeshPollSlice);
    }
    mesh_.acceptor->set_on_accept(
        [acceptor = mesh_.acceptor.get()](const AuthenticatedSocket& socket) {
          acceptor->note_refusal(socket, "this rank expects no connection");
        });
    return std::move(mesh_);
  }

 private:
  struct Outgoing {
    int peer = -1;
    std::unique_ptr<Dialer> dialer;           // until connected
    std::unique_ptr<ControlChannel> channel;  // until admitted
    Nanos admit_until = 0;
  };

  const Member& member(int rank) const {
    return config_.view.members[static_cast<std::size_t>(rank)];
  }

  void listen(transport::tcp::Fd listener) {
    mesh_.acceptor = std::make_unique<Acceptor>(
        poller_, clock_, std::move(listener), data_acceptor(config_),
        [this](AuthenticatedSocket socket) { on_accept(std::move(socket)); });
  }

  Result<DialOptions> dial_options(int peer) const {
    auto addresses = addresses_of(member(peer));
    if (!addresses.ok()) return addresses.status();
    DialOptions options;
    options.addresses = {addresses.value().front()};  // the other rails follow later
    options.insecure = config_.insecure;
    options.deadline = deadline_;
    options.refused_is_final = true;  // its listener was open before the view was made
    options.handshake = data_handshake(config_);
    options.handshake.peer_rank = peer;
    options.handshake.peer_incarnation = member(peer).incarnation;
    return options;
  }

  Status dial(int peer) {
    auto options = dial_options(peer);
    if (!options.ok()) return options.status();
    Outgoing out;
    out.peer = peer;
    out.dialer = std::make_unique<Dialer>(poller_, clock_, std::move(options).value());
    outgoing_.push_back(std::move(out));
    return {};
  }

  // The lower rank's side: says "admit" once and hands the socket on when that is written.
  void on_accept(AuthenticatedSocket socket) {
    const int peer = socket.peer_rank;
    const bool listed =
        std::find(config_.peers.begin(), config_.peers.end(), peer) != config_.peers.end();
    // A faster peer may already heal its link: its first connection is good, or fails in the link.
    const bool first = socket.role == wire::ConnectionRole::kData;
    const bool expected = listed && first && peer > config_.rank &&
                          socket.peer_incarnation == member(peer).incarnation;
    if (!expected) return mesh_.acceptor->note_refusal(socket, "not expected in this mesh");
    admitting_.push_back(
        std::make_unique<ControlChannel>(poller_, std::move(socket), kMessageBytesMax));
    admitting_.back()->stop_reading_after(0);
    admitting_.back()->send(wire::encode_plain(wire::MembershipType::kAdmit));
  }

  Status progress(Nanos now) {
    mesh_.acceptor->progress(now);
    for (auto it = admitting_.begin(); it != admitting_.end();) {
      ControlChannel& channel = **it;
      const bool good = channel.status().ok();
      if (good && channel.has_unsent()) {
        ++it;
        continue;
      }
      if (good) keep(channel.release());
      it = admitting_.erase(it);
    }
    for (auto it = outgoing_.begin(); it != outgoing_.end();) {
      const auto done = advance(*it, now);
      if (!done.ok()) return done.status();
      it = done.value() ? outgoing_.erase(it) : std::next(it);
    }
    return {};
  }

  // A peer that should dial this rank may be dead: every kAbsenceProbeInterval one of them is
  // looked after, in turn. Only a refused connection or another process at its address counts;
  // silence does not.
  Status probe_awaited(Nanos now) {
    if (!probe_) {
      if (awaited_.empty() || now < probe_at_) return {};
      auto next = awaited_.upper_bound(probed_);
      if (next == awaited_.end()) next = awaited_.begin();
      probed_ = *next;
      auto options = dial_options(probed_);
      if (!options.ok()) return options.status();
      options.value().handshake.role = wire::ConnectionRole::kProbe;
      options.value().deadline = std::min(deadline_, now + kAbsenceProbeInterval);
      probe_ = std::make_unique<Dialer>(poller_, clock_, std::move(options).value());
    }
    probe_->progress(now);
    if (!probe_->ended()) return {};
    const auto probe = std::move(probe_);
    probe_at_ = now + kAbsenceProbeInterval;
    const auto outcome = probe->take();
    const bool gone =
        !outcome.ok() && (outcome.status().code() == Code::kPeerLost || somebody_else(*probe));
    if (!gone || awaited_.count(probed_) == 0) return {};
    return lost(probed_, outcome.status());
  }

  void keep(AuthenticatedSocket socket) {
    awaited_.erase(socket.peer_rank);
    // A second connection of a peer that did not see its first one admitted replaces it.
    mesh_.sockets.insert_or_assign(socket.peer_rank, std::move(socket));
  }

  // True once the peer has admitted this rank. A connection that ends before is dialled again.
  Result<bool> advance(Outgoing& out, Nanos now) {
    if (out.dialer) {
      out.dialer->progress(now);
      if (!out.dialer->ended()) return false;
      auto socket = out.dialer->take();
      if (!socket.ok()) return blame(out, socket.status());
      out.dialer.reset();
      out.channel =
          std::make_unique<ControlChannel>(poller_, std::move(socket).value(), kMessageBytesMax);
      out.channel->stop_reading_after(1);
      out.admit_until = now + kAdmitLimit;
    }
    const auto message = out.channel->receive();
    if (message) {
      const auto type = wire::membership_type(*message);
      if (!type.ok() || type.value() != wire::MembershipType::kAdmit) {
        return Status(Code::kCorrupt, "rank " + std::to_string(out.peer) + " sent no admission")
            .with_peer(out.peer);
      }
      mesh_.sockets.insert_or_assign(out.peer, out.channel->release());
      return true;
    }
    if (out.channel->status().ok() && now < out.admit_until) return false;
    out.channel.reset();
    const int peer = out.peer;
    const Status status = redial(out, peer);
    if (!status.ok()) return status;
    return false;
  }

  Status redial(Outgoing& out, int peer) {
    if (const Status status = dial(peer); !status.ok()) return status;
    out.dialer = std::move(outgoing_.back().dialer);
    outgoing_.pop_back();
    return {};
  }

  static bool somebody_else(const Dialer& dialer) {
    return dialer.not_syncline() ||
           (dialer.reject() && dialer.reject()->code == wire::RejectCode::kIncarnation);
  }

  Status lost(int peer, const Status& why) const {
    return Status(Code::kPeerLost, "rank " + std::to_string(peer) + " on " +
                                       member(peer).host_name + ": " + why.message())
        .with_peer(peer);
  }

  Status blame(const Outgoing& out, const Status& why) const {
    if (somebody_else(*out.dialer)) return lost(out.peer, why);
    return Status(why.code(), "rank " + std::to_string(out.peer) + " on " +
                                  member(out.peer).host_name + ": " + why.message())
        .with_peer(out.peer);
  }

  bool complete() const {
    return mesh_.sockets.size() == config_.peers.size() && outgoing_.empty();
  }

  Status timed_out() const {
    std::string list;
    int first = -1;
    for (const int peer : config_.peers) {
      if (mesh_.sockets.count(peer) != 0) continue;
      if (first < 0) first = peer;
      list += (list.empty() ? "rank " : ", rank ") + std::to_string(peer) + " on " +
              member(peer).host_name;
      if (peer > config_.rank) list += " (should have dialled this rank)";
    }
    return Status(Code::kTimeout, "no connection between rank " + std::to_string(config_.rank) +
                                      " on " + member(config_.rank).host_name + " and " + list +
                                      " within " + std::to_string(config_.timeout / kMillisecond) +
                                      " ms; does a firewall close the data ports? (--port-range)")
        .with_peer(first);
  }

  event::Poller& poller_;
  const Clock& clock_;
  const MeshConfig& config_;
  Nanos deadline_;
  Mesh mesh_;
  std::set<int> awaited_;
  std::list<std::unique_ptr<ControlChannel>> admitting_;
  std::list<Outgoing> outgoing_;
  std::unique_ptr<Dialer> probe_;
  int probed_ = -1;
  Nanos probe_at_ = clock_.now() + kAbsenceProbeInterval;
};

}  // namespace

HandshakeConfig data_handshake(const MeshConfig& config) {
  HandshakeConfig out;
  out.key = config.key;
  out.run_id = config.run_id;
  out.role = wire::ConnectionRole::kData;
  out.rank = config.rank;
  out.world_size = static_cast<int>(config.view.members.size());
  out.incarnation = config.view.members[static_cast<std::size_t>(config.rank)].incarnation;
  out.view = config.view.view;
  out.job = config.view.job;
  return out;
}

AcceptorOptions data_acceptor(const MeshConfig& config) {
  AcceptorOptions options;
  options.handshake = data_handshake(config);
  options.insecure = config.insecure;
  options.name = "data";
  options.log = config.log;
  return options;
}

Result<std::vector<Address>> addresses_of(const Member& member) {
  std::vector<Address> addresses;
  for (const std::string& text : member.addresses) {
    const auto where = transport::tcp::parse_host_port(text);
    auto address = where.ok()
                       ? transport::tcp::parse_literal(where.value().host, where.value().port)
                       : Result<Address>(where.status());
    if (!address.ok()) {
      return Status(Code::kCorrupt, "rank " + std::to_string(member.rank) +
                                        " announced an address that is none: '" + text + "'")
          .with_peer(member.rank);
    }
    addresses.push_back(address.value());
  }
  if (addresses.empty()) {
    return Status(Code::kCorrupt, "rank " + std::to_string(member.rank) + " announced no address")
        .with_peer(member.rank);
  }
  return addresses;
}

Result<Mesh> connect_mesh(event::Poller& poller, const Clock& clock, const MeshConfig& config,
                          transport::tcp::Fd data_listener) {
  return MeshBuilder(poller, clock, config).run(std::move(data_listener));
}

}  // namespace syncline::cluster
