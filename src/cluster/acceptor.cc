#include "cluster/acceptor.h"

#include <sys/epoll.h>
#include <sys/socket.h>

namespace syncline::cluster {
namespace {

using transport::tcp::Fd;

Secret fresh_ephemeral() {
  Secret secret;
  random_bytes(std::as_writable_bytes(std::span(secret)));
  return secret;
}

// How many connections one readiness event may take, so that a flood cannot hold the loop.
constexpr int kAcceptsPerEvent = 64;

}  // namespace

Acceptor::Acceptor(event::Poller& poller, const Clock& clock, Fd listener, AcceptorOptions options,
                   OnAccept on_accept)
    : poller_(poller),
      clock_(clock),
      listener_(std::move(listener)),
      options_(std::move(options)),
      on_accept_(std::move(on_accept)),
      refusals_(options_.log, "the " + options_.name + " listener " +
                                  transport::tcp::local_address(listener_.get()).to_string()) {
  poller_.add(listener_.get(), EPOLLIN, [this](std::uint32_t) { on_ready(); });
}

Acceptor::~Acceptor() {
  if (listener_.valid()) poller_.remove(listener_.get());
}

Fd Acceptor::release() {
  poller_.remove(listener_.get());
  half_open_.clear();
  return std::move(listener_);
}

transport::tcp::Address Acceptor::address() const {
  return transport::tcp::local_address(listener_.get());
}

void Acceptor::on_ready() {
  for (int i = 0; i < kAcceptsPerEvent; ++i) {
    auto next = transport::tcp::accept_from(listener_.get());
    if (!next.ok()) {
      paused_until_ = clock_.now() + kPause;
      poller_.modify(listener_.get(), 0);
      return refuse("anyone", next.status().message());
    }
    if (!next.value()) return;
    admit(std::move(*next.value()));
  }
}

void Acceptor::admit(Fd fd) {
  const auto remote = transport::tcp::remote_address(fd.get());
  const bool trusted_path =
      !options_.handshake.key.absent() || options_.insecure || remote.is_loopback();
  if (!trusted_path) {
    return refuse(remote.host(),
                  "there is no job key and the peer is on another host; make one: "
                  "syncline key create");
  }
  const Nanos now = clock_.now();
  if (half_open_.size() >= kHalfOpenMax && !make_room(now)) {
    const auto busy = wire::encode_reject(wire::RejectCode::kBusy, 0, "");
    (void)::send(fd.get(), busy.data(), busy.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return refuse(remote.host(), "too many unfinished connections");
  }
  HandshakeConfig config = options_.handshake;
  config.peer_address = remote.to_string();
  HalfOpen connection;
  connection.source = remote.host();
  connection.address = remote.to_string();
  connection.since = now;
  connection.socket = std::make_unique<HandshakeSocket>(
      poller_, std::move(fd), Handshake::listener(std::move(config), fresh_ephemeral()),
      now + kHandshakeLimit);
  half_open_.push_back(std::move(connection));
}

bool Acceptor::make_room(Nanos now) {
  for (auto it = half_open_.begin(); it != half_open_.end(); ++it) {
    if (now - it->since < kHelloPatience) continue;
    it->socket->hear();  // this loop may be late, not the peer
    if (it->socket->core().state() != Handshake::State::kAwaitHello) continue;
    refuse(it->source, "sent no hello and others wait");
    half_open_.erase(it);
    return true;
  }
  return false;
}

void Acceptor::progress(Nanos now) {
  if (paused_until_ != 0 && now >= paused_until_) {
    paused_until_ = 0;
    poller_.modify(listener_.get(), EPOLLIN);
  }
  std::list<HalfOpen> ended;
  for (auto it = half_open_.begin(); it != half_open_.end();) {
    it->socket->progress(now);
    const auto here = it++;
    if (here->socket->ended()) ended.splice(ended.end(), half_open_, here);
  }
  for (HalfOpen& connection : ended) end(connection);
}

void Acceptor::end(HalfOpen& connection) {
  const Handshake& core = connection.socket->core();
  if (core.failed()) {
    const bool silent = core.failure() == Handshake::Failure::kDeadline ||
                        core.failure() == Handshake::Failure::kClosed;
    return refuse(connection.source,
                  silent ? "no handshake came (a port scan?)" : core.status().message());
  }
  if (core.peer().role == wire::ConnectionRole::kProbe) {
    ++stats_.probes;
    return;
  }
  ++stats_.accepted;
  on_accept_(connection.socket->take(connection.address));
}

void Acceptor::refuse(const std::string& source, const std::string& why) {
  ++stats_.refused;
  refusals_.note(clock_.now(), source, why);
}

void Acceptor::note_refusal(const AuthenticatedSocket& socket, const std::string& why) {
  refuse(socket.peer_address.substr(0, socket.peer_address.rfind(':')),
         "rank " + std::to_string(socket.peer_rank) + ": " + why);
}

}  // namespace syncline::cluster
