#include "cluster/handshake_socket.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "base/assert.h"

namespace syncline::cluster {

HandshakeSocket::HandshakeSocket(event::Poller& poller, transport::tcp::Fd fd, Handshake core,
                                 Nanos deadline)
    : poller_(poller), fd_(std::move(fd)), core_(std::move(core)), deadline_(deadline) {
  poller_.add(fd_.get(), EPOLLIN, [this](std::uint32_t) { on_ready(); });
  watched_ = true;
  write();
}

HandshakeSocket::~HandshakeSocket() { unwatch(); }

void HandshakeSocket::unwatch() {
  if (watched_) poller_.remove(fd_.get());
  watched_ = false;
}

bool HandshakeSocket::ended() const { return (core_.done() || core_.failed()) && unsent_.empty(); }

void HandshakeSocket::progress(Nanos now) {
  if (ended() || now < deadline_) return;
  core_.on_deadline();
  unsent_.clear();  // the peer reads nothing: no use to wait
  unwatch();
}

void HandshakeSocket::hear() {
  if (!ended()) on_ready();
}

void HandshakeSocket::on_ready() {
  write();
  read();
  if (ended()) {
    unwatch();
  } else if (unsent_.empty()) {
    poller_.modify(fd_.get(), EPOLLIN);
  }
}

void HandshakeSocket::read() {
  std::array<std::byte, wire::kHelloBytes> buffer;
  while (core_.wanted() > 0) {
    const ssize_t got =
        ::recv(fd_.get(), buffer.data(), std::min(core_.wanted(), buffer.size()), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0) return core_.on_eof();
    core_.on_bytes(std::span(buffer).first(static_cast<std::size_t>(got)));
    write();
  }
}

void HandshakeSocket::write() {
  const auto more = core_.take_output();
  unsent_.insert(unsent_.end(), more.begin(), more.end());
  while (!unsent_.empty()) {
    const ssize_t put = ::send(fd_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      return poller_.modify(fd_.get(), EPOLLOUT);
    }
    if (put < 0) {
      unsent_.clear();
      return core_.on_eof();
    }
    unsent_.erase(unsent_.begin(), unsent_.begin() + put);
  }
}

AuthenticatedSocket HandshakeSocket::take(std::string peer_address) {
  SYNCLINE_ASSERT(ended() && core_.done(), "only a finished handshake authenticates a socket");
  unwatch();
  AuthenticatedSocket out;
  out.fd = std::move(fd_);
  out.peer_rank = core_.peer().rank;
  out.peer_incarnation = core_.peer().incarnation;
  out.rail = core_.peer().rail;
  out.role = core_.peer().role;
  out.keys = core_.keys();
  out.peer_address = std::move(peer_address);
  return out;
}

}  // namespace syncline::cluster
