// Stream: one connection, as a link sees it. Moves bytes; knows no protocol.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace syncline::transport {

enum class IoState : std::uint8_t {
  kOk,
  kAgain,  // nothing to read, or no room to write, now
  kEof,    // the peer closed its end in order
  kReset,  // the peer's side answered with a reset: nobody reads there any more
  kError,  // see `error`
};

struct IoResult {
  IoState state = IoState::kOk;
  std::size_t bytes = 0;
  int error = 0;  // errno of kReset and kError
};

// Confined. Never blocks.
class Stream {
 public:
  virtual ~Stream() = default;
  // As much of the pieces as there is room for.
  virtual IoResult write(std::span<const std::span<const std::byte>> pieces) = 0;
  virtual IoResult read(std::span<std::byte> space) = 0;
  // Lets what was written leave, then ends the stream. Idempotent.
  virtual void close() = 0;
  // What a poller watches; -1: nothing, the owner looks by itself.
  virtual int fd() const = 0;
  // It leads to another host.
  virtual bool is_far() const = 0;
};

}  // namespace syncline::transport
