// Link: the session with one peer incarnation, which outlives a connection. A protocol core without
// sockets, threads and clocks: events in, actions out. Rules and bytes: docs/formats/wire.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/clock.h"
#include "cluster/link_store.h"
#include "syncline/status.h"
#include "transport/endpoint.h"
#include "wire/header.h"

namespace syncline::cluster {

struct LinkConfig {
  int self_rank = 0;
  int peer_rank = 0;
  std::string peer_host;  // for messages
  std::uint64_t view = 0;
  std::uint64_t self_incarnation = 0;
  std::uint64_t peer_incarnation = 0;
  Nanos suspect = kSecond;
  Nanos silence = 10 * kSecond;
  std::size_t window = 1024 * 1024;  // bytes in the store; both ends use the same
};

// What the driver does after an event; take_actions() hands them over once. Output is not among
// them: ask output().
struct LinkActions {
  bool disconnect = false;  // close the connection: nothing more will be read or written
  bool probe = false;       // start a connection attempt to the peer's address, tell on_probe()
  std::string log;          // a line for the operator; empty = none
};

enum class Incoming : std::uint8_t {
  kDeliver,  // hand it up in order, then call consumed()
  kSkip,  // of another view: queue it like a frame, but drop it when its turn comes; consumed() too
  kGoodbye,  // queue it; call goodbye_reached() when its turn comes
  kControl,  // done with
  kClosed,   // the bytes are wrong and the link has ended; see status()
};

enum class ProbeResult : std::uint8_t {
  kRefused,   // nobody listens there any more: positive evidence of death
  kAnswered,  // something accepts connections: the peer may live
  kNoAnswer,  // timeout, or an error that proves nothing
};

// Confined.
//
// States
//   kOpen      frames flow both ways
//   kClosing   close() was called: no new frames, the store still empties, the peer is still read
//   kBroken    the connection ended without a goodbye; the peer's address is probed every 100 ms.
//              Resuming over a new connection (Type::kResume) is reserved and not built
//   kClosed    final
//
// Events and transitions
//   close()                        kOpen -> kClosing; a goodbye enters the store
//                                  kBroken -> kClosed
//   goodbye_reached()              kOpen -> kClosing: frames before it were read; it is
//   acknowledged on_end()                       kClosing -> kClosed
//                                  kOpen -> kBroken, unless the peer's goodbye is queued: kOpen
//                                  until it is reached, then kClosed
//   on_evidence(), probe refused   any -> kClosed (kPeerLost)
//   silence                        any -> kClosed (kPeerLost; kLinkDown if a probe was answered)
//   wrong bytes                    any -> kClosed (kCorrupt)
// status() is ok in kOpen and kBroken; the first reason stands (kShutdown in kClosing).
// A suspect peer (no sign of life for `suspect`) is logged and changes no state.
class Link {
 public:
  enum class State : std::uint8_t { kOpen, kClosing, kBroken, kClosed };

  Link(LinkConfig config, Nanos now);

  // -- from the layer above
  // Copies header and payload into the store; then tell the driver to write output().
  transport::SendResult send(const transport::FrameHeader& header, const void* payload);
  // The frame was released; in the order of delivery.
  void consumed(std::uint32_t rail_seq, std::size_t frame_bytes, Nanos now);
  void goodbye_reached();
  void close();

  // -- from the connection
  // Any bytes arrived.
  void on_heard(Nanos now);
  // 64 bytes of a header. False: the link has ended. Else frame_bytes() is the frame's whole size.
  bool on_header(const std::byte* header);
  std::size_t frame_bytes() const { return wire::kHeaderBytes + incoming_.length; }
  // The frame whose header came last, whole. `out` is set for kDeliver, `rail_seq` for what is
  // queued.
  Incoming on_frame(const std::byte* frame, transport::Frame& out, std::uint32_t& rail_seq);
  // The connection ended; `how` goes into messages ("the connection was reset").
  void on_end(const std::string& how, Nanos now);
  // What output() offered has left, in part or whole.
  void on_written(std::size_t bytes, Nanos now);

  // -- from outside
  void on_probe(ProbeResult result, Nanos now);
  // Proof that the peer's process is gone ("its launcher reports exit code 9").
  void on_evidence(const std::string& what);
  // Due timers. At least every 100 ms; first read what the connection has.
  void tick(Nanos now);

  // -- actions
  LinkActions take_actions();
  bool has_actions() const { return has_actions_; }
  // What to write next: at most pieces.size() pieces in order. 0: nothing now.
  std::size_t output(std::span<std::span<const std::byte>> pieces);
  bool has_output() const {
    return connected_ &&
           (control_left_ > 0 || store_.has_unwritten() || ack_now_ || heartbeat_now_);
  }

  State state() const { return state_; }
  const Status& status() const { return status_; }
  Nanos last_heard() const { return last_heard_; }
  // Frames, or the answer to the peer's goodbye, would be lost with this process.
  bool has_unsent() const;
  std::size_t stored_bytes() const { return store_.bytes(); }
  std::string peer() const;  // "rank 3 on host b"

 private:
  std::uint32_t cumulative_ack() const { return peer_left_ ? received_ : consumed_; }
  void store_goodbye();
  void on_ack(std::uint32_t cum_ack);
  Incoming on_sequenced(const std::byte* body, transport::Frame& out);
  Incoming fail_corrupt(const std::string& why);
  void finish(const Status& status);
  void lose(Code code, const std::string& why);
  void watch_silence(Nanos now);
  void seal(std::byte* frame);
  void log(std::string line);
  void want_probe(Nanos now);

  const LinkConfig config_;
  State state_ = State::kOpen;
  Status status_;
  LinkActions actions_;
  bool has_actions_ = false;

  // Sending
  LinkStore store_;
  std::uint32_t last_sent_ = 0;   // rail_seq of the newest frame in the store
  std::uint32_t last_acked_ = 0;  // by the peer
  std::byte control_[wire::kHeaderBytes];
  std::size_t control_left_ = 0;  // of control_, its end still to be written
  bool ack_now_ = false;
  bool heartbeat_now_ = false;
  bool said_goodbye_ = false;
  Nanos last_written_ = 0;

  // Receiving
  wire::Header incoming_;
  bool incoming_stale_ = false;
  std::uint32_t received_ = 0;  // whole and verified
  std::uint32_t consumed_ = 0;
  std::size_t owed_bytes_ = 0;  // consumed since the acknowledgement that went out last
  Nanos owed_since_ = 0;
  bool peer_left_ = false;  // its goodbye was received
  bool logged_stale_ = false;

  // Liveness
  bool connected_ = true;
  Nanos last_heard_ = 0;
  Nanos last_tick_ = 0;
  Nanos excused_ = 0;  // silence while this process itself stood still
  Nanos next_probe_ = 0;
  bool suspected_ = false;
  bool probe_answered_ = false;
  Status broken_;  // why the connection ended
};

}  // namespace syncline::cluster
