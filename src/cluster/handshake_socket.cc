#include "cluster/handshake_socket.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <span>

#include "base/assert.h"

namespace syncline::cluster {

using transport::IoResult;
using transport::IoState;

HandshakeSocket::HandshakeSocket(event::Poller& poller, std::unique_ptr<transport::Stream> stream,
                                 Handshake core, Nanos deadline)
    : stream_(std::move(stream)), core_(std::move(core)), deadline_(deadline), watch_(poller) {
  watch_.start(stream_->fd(), EPOLLIN, [this](std::uint32_t) { on_ready(); });
  write();
}

bool HandshakeSocket::ended() const { return (core_.done() || core_.failed()) && unsent_.empty(); }

void HandshakeSocket::progress(Nanos now) {
  if (!ended() && !watch_.running()) on_ready();
  if (ended() || now < deadline_) return;
  core_.on_deadline();
  unsent_.clear();  // the peer reads nothing: no use to wait
  watch_.stop();
}

void HandshakeSocket::hear() {
  if (!ended()) on_ready();
}

void HandshakeSocket::on_ready() {
  write();
  read();
  if (ended()) {
    watch_.stop();
  } else if (unsent_.empty()) {
    watch_.change(EPOLLIN);
  }
}

void HandshakeSocket::read() {
  std::array<std::byte, wire::kHelloBytes> buffer;
  while (core_.wanted() > 0) {
    const auto space = std::span(buffer).first(std::min(core_.wanted(), buffer.size()));
    const IoResult got = stream_->read(space);
    if (got.state == IoState::kAgain) return;
    if (got.state != IoState::kOk) return core_.on_eof();
    core_.on_bytes(space.first(got.bytes));
    write();
  }
}

void HandshakeSocket::write() {
  const auto more = core_.take_output();
  unsent_.insert(unsent_.end(), more.begin(), more.end());
  while (!unsent_.empty()) {
    const std::span<const std::byte> piece(unsent_);
    const IoResult put = stream_->write({&piece, 1});
    if (put.state == IoState::kAgain) return watch_.change(EPOLLOUT);
    if (put.state != IoState::kOk) {
      unsent_.clear();
      return core_.on_eof();
    }
    unsent_.erase(unsent_.begin(), unsent_.begin() + static_cast<std::ptrdiff_t>(put.bytes));
  }
}

AuthenticatedSocket HandshakeSocket::take(std::string peer_address) {
  SYNCLINE_ASSERT(ended() && core_.done(), "only a finished handshake authenticates a socket");
  watch_.stop();
  AuthenticatedSocket out;
  out.stream = std::move(stream_);
  out.peer_rank = core_.peer().rank;
  out.peer_incarnation = core_.peer().incarnation;
  out.rail = core_.peer().rail;
  out.role = core_.peer().role;
  out.keys = core_.keys();
  out.peer_address = std::move(peer_address);
  return out;
}

}  // namespace syncline::cluster
