// Rail: a stream that carries frames, and where its incoming bytes wait.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "transport/stream.h"
#include "transport/tcp/socket.h"
#include "transport/tcp/staging.h"

namespace syncline::transport::tcp {

// A connected socket as a stream: no delay, non-blocking. Never raises SIGPIPE, retries EINTR.
// close() throws away what the peer still sends, since unread bytes would turn the end into a
// reset.
class SocketStream final : public Stream {
 public:
  explicit SocketStream(Fd fd);
  ~SocketStream() override { close(); }
  IoResult write(std::span<const std::span<const std::byte>> pieces) override;
  IoResult read(std::span<std::byte> space) override;
  void close() override;
  int fd() const override { return fd_.get(); }
  bool is_far() const override;

 private:
  Fd fd_;
};

// Confined. Taken frames stay readable whatever happens to the stream.
class Rail {
 public:
  // Closes what it has and forgets what was read of it in part.
  void open(std::unique_ptr<Stream> stream);
  IoResult write(std::span<const std::span<const std::byte>> pieces) {
    return stream_->write(pieces);
  }
  // One read into staging. `frame_bytes`: as far as known, the size of the frame whose first bytes
  // are staged.
  IoResult read(std::size_t frame_bytes, std::size_t frame_bytes_max);

  Staging& staging() { return staging_; }
  int fd() const { return stream_->fd(); }
  bool is_open() const { return stream_ != nullptr; }
  void close() { stream_.reset(); }

 private:
  std::unique_ptr<Stream> stream_;
  Staging staging_;
};

}  // namespace syncline::transport::tcp
