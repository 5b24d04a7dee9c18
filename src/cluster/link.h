// Link: the session with one peer incarnation, which outlives its connections. A protocol core
// without sockets, threads and clocks: events in, actions out. Rules and bytes:
// docs/formats/wire.md.
#pragma once

#include <array>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

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
  int workers = INT_MAX;  // higher numbers are servers; for messages
  std::uint64_t view = 0;
  std::uint64_t self_incarnation = 0;
  std::uint64_t peer_incarnation = 0;
  Nanos suspect = kSecond;
  Nanos silence = 10 * kSecond;
  std::size_t window = 1024 * 1024;  // bytes in the store; both ends use the same
  int rails = 1;
  bool heals = false;  // new connections can come; without them damaged bytes end the link
  bool dials = false;  // this side makes the new connections; the other one only looks after it
  Nanos rail_silence = 400 * kMillisecond;  // a rail without a sign of life for so long is replaced
};

// What the driver does after an event; take_actions() hands them over once. Output and dialling
// are not among them: ask output() and wants_connection().
struct LinkActions {
  std::uint32_t disconnect = 0;  // bit of each rail to close: nothing more is read or written there
  bool probe = false;            // see whether the peer's address is served, tell on_probe()
  std::string log;               // a line for the operator; empty = none
};

enum class Incoming : std::uint8_t {
  kDeliver,  // hand it up in the order of rail_seq, then call consumed()
  kSkip,  // of another view: queue it like a frame, but drop it when its turn comes; consumed() too
  kGoodbye,  // queue it; call goodbye_reached() when its turn comes
  kControl,  // done with
  kClosed,   // nothing more can be read from this rail, or the link has ended; see status()
};

enum class ProbeResult : std::uint8_t {
  kRefused,   // nobody listens there any more: positive evidence of death
  kAnswered,  // something accepts connections: the peer may live
  kNoAnswer,  // timeout, or an error that proves nothing
};

// Of one life; for statistics, tests and logs.
struct LinkStats {
  std::uint64_t connections = 1;  // made, the first one included
  std::uint64_t resumes = 0;      // connections that went on where another had ended
  std::uint64_t duplicates = 0;   // frames received again and dropped
  std::uint64_t damaged = 0;      // frames whose checksum did not fit
};

// Confined.
//
// Rails: connections, numbered from 0; any of them carries any frame. Rail 0 is connected from the
// start. A later connection begins with a resume frame in each direction and carries nothing else
// before the peer's was read: down -> resuming -> up -> down.
//
// States
//   kOpen      at least one rail is up
//   kClosing   close() was called: no new frames, the store still empties, the peer is still read
//   kBroken    no rail is up and the peer has said no goodbye; the side that dials makes new
//              connections, the other one probes the peer's address every 100 ms
//   kClosed    final
//
// Events and transitions
//   close()                        kOpen, kBroken -> kClosing; a goodbye enters the store
//   goodbye_reached()              kOpen -> kClosing: the frames before it were read
//   on_end() of the last rail      kClosing with an empty store -> kClosed
//                                  kOpen -> kBroken, unless the peer's goodbye is queued: kOpen
//                                  until it is reached, then kClosed
//   on_connected()                 a rail begins to resume; an older connection of it ends
//   the peer's resume              kBroken -> kOpen; what it lacks is sent again
//   on_evidence(), probe refused   any -> kClosed (kPeerLost)
//   silence                        any -> kClosed (kPeerLost; kLinkDown if a probe was answered)
//   damaged payload                that frame is asked for again
//   damaged header                 the rail ends: framing is lost
//   what no peer may send, or      any -> kClosed (kCorrupt)
//   damage without progress
// status() is ok in kOpen and kBroken; the first reason stands (kShutdown in kClosing).
// A suspect peer (no sign of life for `suspect`) is logged and changes no state.
class Link {
 public:
  enum class State : std::uint8_t { kOpen, kClosing, kBroken, kClosed };

  Link(LinkConfig config, Nanos now);

  // -- from the layer above
  // Copies header and payload into the store; then tell the driver to write output().
  transport::SendResult send(const transport::FrameHeader& header, const void* payload);
  // The frame was released; in the order of rail_seq.
  void consumed(std::uint32_t rail_seq, std::size_t frame_bytes, Nanos now);
  void goodbye_reached();
  void close();

  // -- from the connections
  // A new, authenticated connection for `rail`. The driver forgets what it has read in part.
  void on_connected(int rail, Nanos now);
  // Any bytes arrived.
  void on_heard(Nanos now, int rail = 0);
  // 64 bytes of a header. False: this rail or the link has ended. Else frame_bytes() is the frame's
  // whole size.
  bool on_header(const std::byte* header, Nanos now, int rail = 0);
  std::size_t frame_bytes(int rail = 0) const { return wire::kHeaderBytes + at(rail).in.length; }
  // The frame whose header came last, whole. `out` is set for kDeliver, `rail_seq` for what is
  // queued: numbers without gaps, but not in order when there are several rails.
  Incoming on_frame(const std::byte* frame, transport::Frame& out, std::uint32_t& rail_seq,
                    Nanos now, int rail = 0);
  // The connection ended; `how` goes into messages ("the connection was reset").
  void on_end(const std::string& how, Nanos now, int rail = 0);
  // What output() offered has left, in part or whole.
  void on_written(std::size_t bytes, Nanos now, int rail = 0);

  // -- from outside
  void on_probe(ProbeResult result, Nanos now);
  // Proof that the peer's process is gone ("its launcher reports exit code 9").
  void on_evidence(const std::string& what);
  // Due timers. At least every 100 ms; first read what the connections have.
  void tick(Nanos now);

  // -- actions
  LinkActions take_actions();
  bool has_actions() const { return has_actions_; }
  // The driver of the side that dials keeps trying to connect while this is so.
  bool wants_connection(int rail, Nanos now) const;
  // What to write next: at most pieces.size() pieces in order. 0: nothing now.
  std::size_t output(std::span<std::span<const std::byte>> pieces, int rail = 0);
  bool has_output(int rail = 0) const;

  State state() const { return state_; }
  const Status& status() const { return status_; }
  Nanos last_heard() const { return last_heard_; }
  // Frames, or the answer to the peer's goodbye, would be lost with this process.
  bool has_unsent() const;
  std::size_t stored_bytes() const { return store_.bytes(); }
  bool is_up(int rail) const { return at(rail).state == RailState::kUp; }
  bool is_connected(int rail) const { return at(rail).state != RailState::kDown; }
  // Some other rail is up and was heard lately.
  bool another_is_alive(int rail, Nanos now) const;
  int rails() const { return config_.rails; }
  const LinkStats& stats() const { return stats_; }
  std::uint64_t bytes_repeated() const { return store_.bytes_repeated(); }
  std::string peer() const;  // "rank 3 on host b"

 private:
  enum class RailState : std::uint8_t { kDown, kResuming, kUp };
  struct Rail {
    RailState state = RailState::kDown;
    bool owes_resume = false;
    bool heartbeat_now = false;
    bool in_stale = false;  // `in` is of another view
    wire::Header in;        // of the frame that arrives
    std::vector<std::byte> control;
    std::size_t control_left = 0;  // of control, its end still to be written
    Nanos last_heard = 0;
    Nanos last_written = 0;
    Nanos since = 0;  // of the connection
  };
  const Rail& at(int rail) const { return rails_[static_cast<std::size_t>(rail)]; }
  Rail& at(int rail) { return rails_[static_cast<std::size_t>(rail)]; }

  std::uint32_t cumulative_ack() const;
  void store_goodbye();
  void on_ack(std::uint32_t cum_ack);
  Incoming on_sequenced(const Rail& rail, const std::byte* body, transport::Frame& out);
  bool note_received(std::uint32_t rail_seq);
  Incoming on_damage(int rail, const std::string& why, Nanos now);
  Incoming fail_corrupt(const std::string& why);
  void finish(const Status& status);
  void lose(Code code, const std::string& why);
  void watch_silence(Nanos now);
  void seal(std::byte* frame);
  void log(std::string line);
  void want_probe(Nanos now);

  // link_healing.cc
  bool is_connected() const;
  void share_window();
  void end_rail(int rail);
  void watch_rails(Nanos now);
  void repair_gap(Nanos now);
  Incoming on_resume(int rail, const std::byte* body, Nanos now);
  void on_nack(std::uint32_t rail_seq);
  void build_control(int rail);
  void build_resume(Rail& rail);
  void build_frame(Rail& rail, wire::Type type, std::uint32_t step);
  bool has_control(int rail) const;

  const LinkConfig config_;
  State state_ = State::kOpen;
  Status status_;
  LinkActions actions_;
  bool has_actions_ = false;
  LinkStats stats_;
  std::vector<Rail> rails_;

  // Sending
  LinkStore store_;
  std::uint32_t last_sent_ = 0;   // rail_seq of the newest frame in the store
  std::uint32_t last_acked_ = 0;  // by the peer
  bool ack_now_ = false;
  bool said_goodbye_ = false;
  int ack_rail_ = 0;                   // which the peer was heard on last
  std::vector<std::uint32_t> nacks_;   // to be sent
  std::uint32_t rails_to_report_ = 0;  // bit of each that ended here

  // Receiving
  std::uint32_t received_ = 0;  // all up to it whole and verified
  std::vector<bool> ahead_ = std::vector<bool>(wire::kFramesAheadMax);  // later ones, by number
  std::uint32_t ahead_count_ = 0;
  std::uint32_t ahead_last_ = 0;     // the highest number received
  bool damage_pending_ = false;      // a frame was asked for and has not come
  std::uint32_t damage_streak_ = 0;  // since a new frame arrived
  Nanos gap_since_ = 0;
  std::uint32_t consumed_ = 0;
  std::size_t owed_bytes_ = 0;  // consumed since the acknowledgement that went out last
  Nanos owed_since_ = 0;
  bool goodbye_came_ = false;
  std::uint32_t goodbye_seq_ = 0;
  bool peer_left_ = false;  // its goodbye and all before it were received
  bool logged_stale_ = false;

  // Liveness
  Nanos last_heard_ = 0;
  Nanos last_tick_ = 0;
  Nanos excused_ = 0;  // silence while this process itself stood still
  Nanos next_probe_ = 0;
  bool suspected_ = false;
  bool probe_answered_ = false;
  Nanos broken_since_ = 0;
  Nanos logged_damage_ = -kSecond;
  Status broken_;  // why the last connection ended
};

}  // namespace syncline::cluster
