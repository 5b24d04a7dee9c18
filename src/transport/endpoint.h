// Endpoint: bytes to one peer. The contract that every transport keeps
// (transport/endpoint_contract_test).
//
// Ordered, reliable, message-framed, asynchronous. Confined: every call is made by the holder of
// the engine's baton (exec/engine.h) and never blocks.
//
// A frame is at most kFrameBytesMax long. Frames arrive whole, verified, exactly once and in the
// order in which they were sent. The receiver reads the payload where the transport staged it and
// then pops.
//
// States: open -> closed. An endpoint closes once, with a reason: the peer's goodbye
// (Code::kShutdown), its death (kPeerLost), or silence past the limit. Frames that arrived before
// stay readable; sends answer kClosed. close() is idempotent, and destroying an open endpoint says
// goodbye first.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/clock.h"
#include "syncline/status.h"

namespace syncline::transport {

inline constexpr std::size_t kFrameBytesMax = 256 * 1024;
inline constexpr std::size_t kTimedBytesMin = 16 * 1024;

enum class FrameType : std::uint8_t {
  kData = 1,    // payload of an operation
  kAbort = 2,   // an operation failed at the sender: payload is a wire::AbortMessage
  kNotify = 3,  // other messages between engines (see wire/messages.h); rare
};

// What an operation is, in 16 bytes: kind u8, dtype u8, reduce op u8, schedule hash u8, root u16,
// name hash u16, count u64 (little-endian). Rides with every frame inside a host, with the first
// frame of an operation to each peer across hosts.
using Fingerprint = std::array<std::byte, 16>;
// In two words: std::array compares byte by byte, for every frame.
inline bool same(const Fingerprint& a, const Fingerprint& b) {
  using Words = std::array<std::uint64_t, 2>;
  const auto [x, y] = std::pair(std::bit_cast<Words>(a), std::bit_cast<Words>(b));
  return ((x[0] ^ y[0]) | (x[1] ^ y[1])) == 0;
}

// Fields of the wire header that the layers above a transport use (wire/header.h).
struct FrameHeader {
  FrameType type = FrameType::kData;
  std::uint16_t flags = 0;
  std::uint32_t comm = 0;     // communicator id
  std::uint64_t op = 0;       // operation number within the communicator
  std::uint32_t step = 0;     // message tag of the schedule
  std::uint32_t segment = 0;  // segment index
  std::uint32_t length = 0;   // payload bytes
  Fingerprint fingerprint{};  // valid if has_fingerprint
  bool has_fingerprint = false;
  // Sends only: refused while earlier frames still wait for the wire, so that what becomes urgent
  // later need not wait behind this one. Not sent; of no effect where frames do not wait.
  bool yields = false;
};

struct Frame {
  FrameHeader header;
  const std::byte* payload = nullptr;  // valid until pop()
};

enum class SendResult : std::uint8_t {
  kAccepted,    // the payload was copied: the caller may overwrite its memory at once
  kWouldBlock,  // no room now; try again after progress
  kClosed,      // see status()
};

// What arm() says.
enum class Armed : std::uint8_t {
  kNo,          // something is there already: do not sleep
  kYes,         // sleep
  kOnceFenced,  // after a heavy_fence() (base/asymmetric_fence.h) ask stays_armed()
};

class Endpoint {
 public:
  virtual ~Endpoint() = default;

  // Copies header and payload (header.length bytes).
  virtual SendResult try_send(const FrameHeader& header, const void* payload) = 0;

  // The oldest unread frame, or nullptr. May do non-blocking I/O. Stays the same until pop().
  virtual const Frame* front() = 0;
  // How long the reader was busy with front()'s payload, in ticks (base/ticks.h): for transports
  // that adapt. Optional, before pop(); of interest from kTimedBytesMin on.
  virtual void note_read(std::uint64_t /*ticks*/) {}
  // Drops front() and frees its staging.
  virtual void pop() = 0;

  // Moves bytes that wait in either direction, fires due timers (acks, heartbeats, resends). Called
  // at every progress pass and at least every 100 ms. Cheap when there is nothing to do.
  virtual void progress(Nanos now) = 0;

  // Asks for a wake-up of the engine's poller when a frame arrives or room for a blocked send
  // appears. disarm() after waking.
  virtual Armed arm() = 0;
  // After kOnceFenced and the fence. False: something came before the peer saw that this side is
  // to be woken; do not sleep.
  virtual bool stays_armed() { return true; }
  virtual void disarm() = 0;

  // Last sign of life of the peer, on the local clock.
  virtual Nanos last_heard() const = 0;
  // True while accepted frames may still be lost with this process: linger before exit.
  virtual bool has_unsent() const = 0;

  // Orderly goodbye; no more sends. Accepted frames are still delivered.
  virtual void close() = 0;
  // Ok while open.
  virtual Status status() const = 0;
  // "inproc", "shm", "tcp".
  virtual const char* transport_name() const = 0;
  // A round trip takes much longer than a copy.
  virtual bool is_far() const { return false; }
};

}  // namespace syncline::transport
