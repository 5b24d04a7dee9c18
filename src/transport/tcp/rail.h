// Rail: one connected TCP socket that carries frames. Moves bytes; knows no protocol.
#pragma once

#include <cstddef>
#include <span>

#include "base/clock.h"
#include "transport/tcp/socket.h"
#include "transport/tcp/staging.h"

namespace syncline::transport::tcp {

enum class IoState : std::uint8_t {
  kOk,
  kAgain,  // the kernel has nothing, or no room, now
  kEof,    // the peer closed its end in order
  kReset,  // the peer's kernel answered with a reset: nobody reads there any more
  kError,  // see `error`
};

struct IoResult {
  IoState state = IoState::kOk;
  std::size_t bytes = 0;
  int error = 0;  // errno of kReset and kError
};

// Confined. Never blocks, never raises SIGPIPE, retries EINTR.
class Rail {
 public:
  Rail() = default;
  // Closes what it has. Tunes the socket (no delay, non-blocking). Taken frames stay readable.
  void open(Fd fd);

  // Writes as much of the pieces as the kernel takes, in one call.
  IoResult write(std::span<const std::span<const std::byte>> pieces);
  // One read into staging. `frame_bytes`: as far as known, the size of the frame whose first bytes
  // are staged.
  IoResult read(std::size_t frame_bytes, std::size_t frame_bytes_max);

  Staging& staging() { return staging_; }
  int fd() const { return fd_.get(); }
  bool is_open() const { return fd_.valid(); }

  // Sends what the kernel holds, then an end of stream; throws away what the peer still sends,
  // since unread bytes would turn the end into a reset. Staged frames stay readable. Idempotent.
  void close();

 private:
  Fd fd_;
  Staging staging_;
};

}  // namespace syncline::transport::tcp
