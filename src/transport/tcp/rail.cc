#include "transport/tcp/rail.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace syncline::transport::tcp {
namespace {

constexpr std::size_t kPiecesMax = 16;

IoResult failed(int error) {
  if (error == EAGAIN || error == EWOULDBLOCK) return {IoState::kAgain, 0, 0};
  if (error == ECONNRESET || error == EPIPE) return {IoState::kReset, 0, error};
  return {IoState::kError, 0, error};
}

}  // namespace

SocketStream::SocketStream(Fd fd) : fd_(std::move(fd)) { tune_stream(fd_.get()); }

bool SocketStream::is_far() const {
  return remote_address(fd_.get()).host() != local_address(fd_.get()).host();
}

IoResult SocketStream::write(std::span<const std::span<const std::byte>> pieces) {
  std::array<iovec, kPiecesMax> vectors;
  const std::size_t count = std::min(pieces.size(), kPiecesMax);
  for (std::size_t i = 0; i < count; ++i) {
    vectors[i] = {const_cast<std::byte*>(pieces[i].data()), pieces[i].size()};
  }
  msghdr message{};
  message.msg_iov = vectors.data();
  message.msg_iovlen = count;
  for (;;) {
    const ssize_t written = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (written >= 0) return {IoState::kOk, static_cast<std::size_t>(written), 0};
    if (errno != EINTR) return failed(errno);
  }
}

IoResult SocketStream::read(std::span<std::byte> space) {
  for (;;) {
    const ssize_t got = ::recv(fd_.get(), space.data(), space.size(), MSG_DONTWAIT);
    if (got > 0) return {IoState::kOk, static_cast<std::size_t>(got), 0};
    if (got == 0) return {IoState::kEof, 0, 0};
    if (errno != EINTR) return failed(errno);
  }
}

void SocketStream::close() {
  if (!fd_.valid()) return;
  (void)::shutdown(fd_.get(), SHUT_WR);
  std::array<std::byte, 16 * 1024> ignored;
  for (int i = 0; i < 64; ++i) {
    if (::recv(fd_.get(), ignored.data(), ignored.size(), MSG_DONTWAIT) <= 0) break;
  }
  fd_.reset();
}

void Rail::open(std::unique_ptr<Stream> stream) {
  stream_ = std::move(stream);
  staging_.drop_untaken();
}

IoResult Rail::read(std::size_t frame_bytes, std::size_t frame_bytes_max) {
  const IoResult result = stream_->read(staging_.space(frame_bytes, frame_bytes_max));
  if (result.state == IoState::kOk) staging_.wrote(result.bytes);
  return result;
}

}  // namespace syncline::transport::tcp
