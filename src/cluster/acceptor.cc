#include "cluster/acceptor.h"

#include <sys/epoll.h>

#include <span>

namespace syncline::cluster {
namespace {

// How many connections one readiness event may take, so that a flood cannot hold the loop.
constexpr int kAcceptsPerEvent = 64;

}  // namespace

Acceptor::Acceptor(event::Poller& poller, const Clock& clock,
                   std::unique_ptr<transport::Listener> listener, AcceptorOptions options,
                   OnAccept on_accept)
    : poller_(poller),
      clock_(clock),
      listener_(std::move(listener)),
      options_(std::move(options)),
      on_accept_(std::move(on_accept)),
      refusals_(options_.log,
                "the " + options_.name + " listener " + listener_->address().to_string()),
      watch_(poller) {
  watch_.start(listener_->fd(), EPOLLIN, [this](std::uint32_t) { on_ready(); });
}

void Acceptor::on_ready() {
  for (int i = 0; i < kAcceptsPerEvent; ++i) {
    auto next = listener_->accept();
    if (!next.ok()) {
      paused_until_ = clock_.now() + kPause;
      watch_.change(0);
      return refuse("anyone", next.status().message());
    }
    if (next.value().stream == nullptr) return;
    admit(std::move(next).value());
  }
}

void Acceptor::admit(transport::Listener::Accepted next) {
  const transport::tcp::Address& remote = next.from;
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
    const std::span<const std::byte> piece(busy);
    (void)next.stream->write({&piece, 1});
    return refuse(remote.host(), "too many unfinished connections");
  }
  HandshakeConfig config = options_.handshake;
  config.peer_address = remote.to_string();
  HalfOpen connection;
  connection.source = remote.host();
  connection.address = remote.to_string();
  connection.since = now;
  connection.socket = std::make_unique<HandshakeSocket>(
      poller_, std::move(next.stream),
      Handshake::listener(std::move(config), options_.outside.fresh_secret()),
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
    watch_.change(EPOLLIN);
  }
  if (!watch_.running() && paused_until_ == 0) on_ready();
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
         options_.handshake.name_of(socket.peer_rank) + ": " + why);
}

}  // namespace syncline::cluster
