#include "cluster/mesh_builder.h"

#include <algorithm>

#include "base/assert.h"
#include "base/planted.h"
#include "cluster/process_name.h"

namespace syncline::cluster {
namespace {

constexpr Nanos kAbsenceProbeInterval = 500 * kMillisecond;
constexpr Nanos kAdmitLimit = 5 * kSecond;
constexpr std::size_t kMessageBytesMax = 2048;

bool somebody_else(const Dialer& dialer) {
  return dialer.not_syncline() ||
         (dialer.reject() && dialer.reject()->code == wire::RejectCode::kIncarnation);
}

}  // namespace

MeshBuilder::MeshBuilder(event::Poller& poller, const Clock& clock, MeshConfig config,
                         std::unique_ptr<transport::Listener> listener)
    : poller_(poller),
      clock_(clock),
      config_(std::move(config)),
      deadline_(clock.now() + config_.timeout),
      probe_at_(clock.now() + kAbsenceProbeInterval) {
  AcceptorOptions options = data_acceptor(config_);
  // A peer whose own mesh is complete may miss this rank's frames and dial to heal the link.
  options.handshake.heals_later = !SYNCLINE_PLANTED(heals_in_the_mesh);
  mesh_.acceptor = std::make_unique<Acceptor>(
      poller_, clock_, std::move(listener), std::move(options),
      [this](AuthenticatedSocket socket) { on_accept(std::move(socket)); });
  for (const int peer : config_.peers) {
    SYNCLINE_ASSERT(
        peer >= 0 && peer < static_cast<int>(config_.view.members.size()) && peer != config_.rank,
        "peers are ranks of the view");
    if (peer > config_.rank) {
      awaited_.insert(peer);
    } else if (Status status = dial(peer); !status.ok()) {
      end(std::move(status));
      return;
    }
  }
}

Result<Mesh> MeshBuilder::take() {
  SYNCLINE_ASSERT(ended(), "ask ended() first");
  if (!status_.ok()) return status_;
  mesh_.acceptor->set_on_accept(
      [acceptor = mesh_.acceptor.get()](const AuthenticatedSocket& socket) {
        acceptor->note_refusal(socket, "this rank expects no connection");
      });
  return std::move(mesh_);
}

void MeshBuilder::end(Status status) {
  status_ = std::move(status);
  ended_ = true;
}

void MeshBuilder::progress(Nanos now) {
  if (ended()) return;
  mesh_.acceptor->progress(now);
  admit();
  if (Status status = dial_all(now); !status.ok()) return end(std::move(status));
  if (Status status = probe_awaited(now); !status.ok()) return end(std::move(status));
  if (complete()) return end({});
  if (now >= deadline_) end(timed_out());
}

Result<DialOptions> MeshBuilder::dial_options(int peer) const {
  auto addresses = addresses_of(member(peer));
  if (!addresses.ok()) return addresses.status();
  DialOptions options;
  options.addresses = {addresses.value().front()};  // the other rails follow later
  options.insecure = config_.insecure;
  options.deadline = deadline_;
  options.refused_is_final = true;  // its listener was open before the view was made
  options.outside = config_.outside;
  options.handshake = data_handshake(config_);
  options.handshake.peer_rank = peer;
  const bool anyone = SYNCLINE_PLANTED(mesh_takes_anyone);
  options.handshake.peer_incarnation = anyone ? 0 : member(peer).incarnation;
  return options;
}

Status MeshBuilder::dial(int peer) {
  auto options = dial_options(peer);
  if (!options.ok()) return options.status();
  Outgoing out;
  out.peer = peer;
  out.dialer = std::make_unique<Dialer>(poller_, clock_, std::move(options).value());
  outgoing_.push_back(std::move(out));
  return {};
}

// The lower rank's side: says "admit" once and hands the socket on when that is written.
void MeshBuilder::on_accept(AuthenticatedSocket socket) {
  const int peer = socket.peer_rank;
  const bool listed =
      std::find(config_.peers.begin(), config_.peers.end(), peer) != config_.peers.end();
  const bool expected =
      listed && peer > config_.rank && socket.peer_incarnation == member(peer).incarnation;
  if (!expected) return mesh_.acceptor->note_refusal(socket, "not expected in this mesh");
  admitting_.push_back(
      std::make_unique<ControlChannel>(poller_, std::move(socket), kMessageBytesMax));
  admitting_.back()->stop_reading_after(0);
  admitting_.back()->send(wire::encode_plain(wire::MembershipType::kAdmit));
}

void MeshBuilder::admit() {
  for (auto it = admitting_.begin(); it != admitting_.end();) {
    ControlChannel& channel = **it;
    channel.progress();
    const bool good = channel.status().ok();
    if (good && channel.has_unsent()) {
      ++it;
      continue;
    }
    if (good) keep(channel.release());
    it = admitting_.erase(it);
  }
}

Status MeshBuilder::dial_all(Nanos now) {
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
Status MeshBuilder::probe_awaited(Nanos now) {
  if (!probe_) {
    if (awaited_.empty() || now < probe_at_ || SYNCLINE_PLANTED(absent_unprobed)) return {};
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

void MeshBuilder::keep(AuthenticatedSocket socket) {
  awaited_.erase(socket.peer_rank);
  // A second connection of a peer that did not see its first one admitted replaces it.
  mesh_.sockets.insert_or_assign(socket.peer_rank, std::move(socket));
}

// True once the peer has admitted this rank. A connection that ends before is dialled again.
Result<bool> MeshBuilder::advance(Outgoing& out, Nanos now) {
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
  out.channel->progress();
  const auto message = out.channel->receive();
  if (message) {
    const auto type = wire::membership_type(*message);
    if (!type.ok() || type.value() != wire::MembershipType::kAdmit) {
      return Status(Code::kCorrupt, process_name(config_, out.peer) + " sent no admission")
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

Status MeshBuilder::redial(Outgoing& out, int peer) {
  if (const Status status = dial(peer); !status.ok()) return status;
  out.dialer = std::move(outgoing_.back().dialer);
  outgoing_.pop_back();
  return {};
}

Status MeshBuilder::lost(int peer, const Status& why) const {
  return Status(Code::kPeerLost, process_name(config_, peer) + " on " + member(peer).host_name +
                                     ": " + why.message())
      .with_peer(peer);
}

Status MeshBuilder::blame(const Outgoing& out, const Status& why) const {
  if (somebody_else(*out.dialer)) return lost(out.peer, why);
  return Status(why.code(), process_name(config_, out.peer) + " on " + member(out.peer).host_name +
                                ": " + why.message())
      .with_peer(out.peer);
}

bool MeshBuilder::complete() const {
  return mesh_.sockets.size() == config_.peers.size() && outgoing_.empty();
}

Status MeshBuilder::timed_out() const {
  std::string list;
  int first = -1;
  for (const int peer : config_.peers) {
    if (mesh_.sockets.count(peer) != 0) continue;
    if (first < 0) first = peer;
    list +=
        (list.empty() ? "" : ", ") + process_name(config_, peer) + " on " + member(peer).host_name;
    if (peer > config_.rank) list += " (should have dialled this rank)";
  }
  return Status(Code::kTimeout, "no connection between " + process_name(config_, config_.rank) +
                                    " on " + member(config_.rank).host_name + " and " + list +
                                    " within " + std::to_string(config_.timeout / kMillisecond) +
                                    " ms; does a firewall close the data ports? (--port-range)")
      .with_peer(first);
}

}  // namespace syncline::cluster
