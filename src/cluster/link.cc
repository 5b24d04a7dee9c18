#include "cluster/link.h"

#include <cstring>

#include "base/assert.h"
#include "kernels/crc32c.h"

namespace syncline::cluster {
namespace {

using transport::FrameHeader;
using transport::FrameType;
using transport::SendResult;
using wire::Type;

static_assert(wire::kPayloadBytesMax == transport::kFrameBytesMax);
static_assert(static_cast<int>(Type::kData) == static_cast<int>(FrameType::kData) &&
              static_cast<int>(Type::kAbort) == static_cast<int>(FrameType::kAbort) &&
              static_cast<int>(Type::kNotify) == static_cast<int>(FrameType::kNotify));

constexpr std::size_t kWriteBytes = 512 * 1024;  // handed out at a time
constexpr Nanos kAckDelay = kMillisecond;
constexpr Nanos kHeartbeatInterval = 100 * kMillisecond;
constexpr Nanos kBrokenProbeInterval = 100 * kMillisecond;
constexpr Nanos kStandstill = 500 * kMillisecond;  // between ticks: this process stood still

// Signed difference modulo 2^32.
std::int32_t distance(std::uint32_t from, std::uint32_t to) {
  return static_cast<std::int32_t>(to - from);
}

}  // namespace

Link::Link(LinkConfig config, Nanos now)
    : config_(std::move(config)),
      store_(config_.window, wire::kFrameBytesMax),
      last_written_(now),
      last_heard_(now),
      last_tick_(now) {}

SendResult Link::send(const FrameHeader& header, const void* payload) {
  if (state_ == State::kClosing || state_ == State::kClosed) return SendResult::kClosed;
  // The peer will read nothing more; the layer above learns it when it has read the peer's last
  // frame.
  if (peer_left_) return SendResult::kAccepted;
  SYNCLINE_ASSERT(header.length <= wire::kPayloadBytesMax, "frames are bounded");
  SYNCLINE_ASSERT((header.flags & ~wire::kCallerFlags) == 0, "the high flags belong to the link");
  const std::size_t prefix = header.has_fingerprint ? wire::kFingerprintBytes : 0;
  std::byte* frame = store_.append(wire::kHeaderBytes + prefix + header.length);
  if (frame == nullptr) return SendResult::kWouldBlock;

  std::byte* body = frame + wire::kHeaderBytes;
  if (prefix > 0) std::memcpy(body, header.fingerprint.data(), prefix);
  if (header.length > 0) std::memcpy(body + prefix, payload, header.length);
  wire::Header out;
  out.type = static_cast<Type>(header.type);
  out.flags = header.flags;
  if (prefix > 0) out.flags |= wire::kFlagFingerprint;
  out.comm = header.comm;
  out.length = static_cast<std::uint32_t>(prefix + header.length);
  out.view = config_.view;
  out.incarnation = config_.self_incarnation;
  out.op = header.op;
  out.step = header.step;
  out.segment = header.segment;
  out.rail_seq = ++last_sent_;
  out.payload_crc = out.length > 0 ? kernels::crc32c(body, out.length) : 0;
  wire::encode(out, frame);
  return SendResult::kAccepted;
}

void Link::store_goodbye() {
  std::byte* frame = store_.append(wire::kHeaderBytes, /*beyond_window=*/true);
  SYNCLINE_ASSERT(frame != nullptr, "a goodbye always has room");
  wire::Header out;
  out.type = Type::kGoodbye;
  out.view = config_.view;
  out.incarnation = config_.self_incarnation;
  out.rail_seq = ++last_sent_;
  wire::encode(out, frame);
  said_goodbye_ = true;
}

void Link::close() {
  if (state_ == State::kClosing || state_ == State::kClosed) return;
  if (status_.ok()) {
    status_ = Status(Code::kShutdown,
                     "rank " + std::to_string(config_.self_rank) + " closed its link to " + peer())
                  .with_peer(config_.peer_rank)
                  .with_view(config_.view);
  }
  if (!connected_) return finish(status_);
  state_ = State::kClosing;
  if (!peer_left_) store_goodbye();
}

void Link::consumed(std::uint32_t rail_seq, std::size_t frame_bytes, Nanos now) {
  consumed_ = rail_seq;
  if (owed_bytes_ == 0) owed_since_ = now;
  owed_bytes_ += frame_bytes;
  if (owed_bytes_ >= config_.window / 2) ack_now_ = true;
}

void Link::goodbye_reached() {
  consumed_ = received_;
  if (status_.ok()) {
    status_ = Status(Code::kShutdown, peer() + " left the job")
                  .with_peer(config_.peer_rank)
                  .with_view(config_.view);
  }
  if (state_ == State::kOpen) state_ = connected_ ? State::kClosing : State::kClosed;
}

void Link::on_heard(Nanos now) {
  last_heard_ = now;
  excused_ = 0;
  if (suspected_) {
    suspected_ = false;
    log(peer() + " is heard again");
  }
}

bool Link::on_header(const std::byte* header) {
  const wire::Expectation expected{config_.view, config_.peer_incarnation};
  const wire::Verdict verdict = wire::decode(header, expected, incoming_);
  incoming_stale_ = verdict == wire::Verdict::kStaleView;
  if (verdict == wire::Verdict::kOk) return true;
  if (!incoming_stale_) {
    fail_corrupt(wire::explain(verdict, header, expected));
    return false;
  }
  if (!logged_stale_) log(peer() + ": " + wire::explain(verdict, header, expected));
  logged_stale_ = true;
  return true;
}

Incoming Link::on_frame(const std::byte* frame, transport::Frame& out, std::uint32_t& rail_seq) {
  if (state_ == State::kClosed) return Incoming::kClosed;
  if (incoming_.type == Type::kResume) {
    return fail_corrupt(
        "it asked to resume a link, which wire version 1 does not do; run the same "
        "Syncline release on every rank");
  }
  const std::byte* body = frame + wire::kHeaderBytes;
  if (incoming_.length > 0 && kernels::crc32c(body, incoming_.length) != incoming_.payload_crc) {
    return fail_corrupt("the payload checksum of frame " + std::to_string(incoming_.rail_seq) +
                        " does not fit; bytes were damaged on the way: check the network card and "
                        "cable of this path");
  }
  on_ack(incoming_.cum_ack);
  if (state_ == State::kClosed) return Incoming::kClosed;
  if (!wire::is_sequenced(incoming_.type)) return Incoming::kControl;
  rail_seq = incoming_.rail_seq;
  return on_sequenced(body, out);
}

Incoming Link::on_sequenced(const std::byte* body, transport::Frame& out) {
  const std::int32_t ahead = distance(received_, incoming_.rail_seq);
  if (ahead <= 0) {
    ack_now_ = true;
    return Incoming::kControl;
  }
  if (ahead > 1 || peer_left_) {
    return fail_corrupt("frame " + std::to_string(incoming_.rail_seq) + " came where frame " +
                        std::to_string(received_ + 1) +
                        " was due; bytes were lost on an ordered stream");
  }
  received_ = incoming_.rail_seq;
  if (incoming_.type == Type::kGoodbye) {
    peer_left_ = true;
    ack_now_ = true;
    return Incoming::kGoodbye;
  }
  if (incoming_stale_) return Incoming::kSkip;

  FrameHeader& header = out.header;
  header.type = static_cast<FrameType>(incoming_.type);
  header.flags = incoming_.flags & wire::kCallerFlags;
  header.comm = incoming_.comm;
  header.op = incoming_.op;
  header.step = incoming_.step;
  header.segment = incoming_.segment;
  header.has_fingerprint = (incoming_.flags & wire::kFlagFingerprint) != 0;
  const std::size_t prefix = header.has_fingerprint ? wire::kFingerprintBytes : 0;
  if (prefix > 0) std::memcpy(header.fingerprint.data(), body, prefix);
  header.length = incoming_.length - static_cast<std::uint32_t>(prefix);
  out.payload = body + prefix;
  return Incoming::kDeliver;
}

void Link::on_ack(std::uint32_t cum_ack) {
  const std::int32_t fresh = distance(last_acked_, cum_ack);
  if (fresh <= 0) return;
  if (static_cast<std::size_t>(fresh) > store_.written_frames()) {
    fail_corrupt("it acknowledged frame " + std::to_string(cum_ack) + ", which was never sent");
    return;
  }
  store_.acknowledge(static_cast<std::size_t>(fresh));
  last_acked_ = cum_ack;
}

void Link::on_end(const std::string& how, Nanos now) {
  if (!connected_) return;
  connected_ = false;
  actions_.disconnect = has_actions_ = true;
  if (state_ == State::kClosing) return finish(status_);
  if (peer_left_) return;  // frames before its goodbye are still to be read
  broken_ = Status(Code::kLinkDown, "the connection to " + peer() + " broke: " + how)
                .with_peer(config_.peer_rank)
                .with_view(config_.view);
  state_ = State::kBroken;
  want_probe(now);
}

void Link::on_written(std::size_t bytes, Nanos now) {
  last_written_ = now;
  if (control_left_ > 0) {
    SYNCLINE_ASSERT(bytes <= control_left_, "a control frame is offered alone");
    control_left_ -= bytes;
    return;
  }
  store_.wrote(bytes);
}

void Link::on_probe(ProbeResult result, Nanos now) {
  if (state_ != State::kBroken) return;
  if (result == ProbeResult::kRefused) {
    return lose(Code::kPeerLost,
                peer() +
                    " died: its connection ended without a goodbye and its address refuses "
                    "new ones");
  }
  if (result == ProbeResult::kAnswered) probe_answered_ = true;
  next_probe_ = now + kBrokenProbeInterval;
}

void Link::on_evidence(const std::string& what) {
  if (state_ != State::kClosed && !peer_left_) lose(Code::kPeerLost, peer() + " died: " + what);
}

void Link::tick(Nanos now) {
  const Nanos gap = now - last_tick_;
  last_tick_ = now;
  if (gap > kStandstill) excused_ += gap;
  if (state_ == State::kClosed) return;
  if (owed_bytes_ > 0 && now - owed_since_ >= kAckDelay) ack_now_ = true;
  if (connected_ && now - last_written_ >= kHeartbeatInterval && !has_output()) {
    heartbeat_now_ = true;
  }
  if (state_ == State::kBroken && now >= next_probe_) want_probe(now);
  if (!peer_left_) watch_silence(now);
}

void Link::watch_silence(Nanos now) {
  const Nanos silent = now - last_heard_ - excused_;
  const auto text = [](Nanos span) { return std::to_string(span / kMillisecond) + " ms"; };
  if (silent >= config_.silence) {
    const std::string why =
        peer() + " was silent for " + text(silent) + " (limit " + text(config_.silence) + ")";
    if (state_ == State::kBroken && probe_answered_) {
      return lose(Code::kLinkDown, why + ", but its address accepts connections: it may live");
    }
    return lose(Code::kPeerLost, why);
  }
  if (silent >= config_.suspect && !suspected_) {
    suspected_ = true;
    log("suspect: " + peer() + " has been silent for " + text(silent) + "; it is given up after " +
        text(config_.silence));
  }
}

std::size_t Link::output(std::span<std::span<const std::byte>> pieces) {
  if (!connected_ || pieces.empty()) return 0;
  if (control_left_ == 0 && !store_.has_unwritten() && (ack_now_ || heartbeat_now_)) {
    wire::Header out;
    out.type = ack_now_ ? Type::kAck : Type::kHeartbeat;
    out.view = config_.view;
    out.incarnation = config_.self_incarnation;
    out.rail_seq = last_sent_;
    wire::encode(out, control_);
    seal(control_);
    control_left_ = wire::kHeaderBytes;
  }
  if (control_left_ > 0) {
    pieces[0] = {control_ + wire::kHeaderBytes - control_left_, control_left_};
    return 1;
  }
  return store_.collect(pieces, kWriteBytes, [this](std::byte* frame) { seal(frame); });
}

// The last moment to put the newest acknowledgement into a frame.
void Link::seal(std::byte* frame) {
  wire::patch_ack(frame, cumulative_ack());
  owed_bytes_ = 0;
  ack_now_ = heartbeat_now_ = false;
}

bool Link::has_unsent() const {
  if (!connected_ || state_ == State::kClosed) return false;
  if (peer_left_) return ack_now_ || control_left_ > 0 || store_.is_inside_frame();
  return store_.frames() > 0;
}

LinkActions Link::take_actions() {
  LinkActions taken = std::move(actions_);
  actions_ = {};
  has_actions_ = false;
  return taken;
}

std::string Link::peer() const {
  return "rank " + std::to_string(config_.peer_rank) + " on host " + config_.peer_host;
}

Incoming Link::fail_corrupt(const std::string& why) {
  lose(Code::kCorrupt, "bytes from " + peer() + " do not verify: " + why);
  return Incoming::kClosed;
}

void Link::lose(Code code, const std::string& why) {
  Status status = Status(code, why).with_peer(config_.peer_rank).with_view(config_.view);
  finish(broken_.ok() ? status : status.caused_by(broken_));
}

// A link closes once: an earlier reason stands.
void Link::finish(const Status& status) {
  if (status_.ok()) status_ = status;
  state_ = State::kClosed;
  if (connected_) actions_.disconnect = has_actions_ = true;
  connected_ = false;
}

void Link::want_probe(Nanos now) {
  actions_.probe = has_actions_ = true;
  next_probe_ = now + kBrokenProbeInterval;
}

void Link::log(std::string line) {
  actions_.log += (actions_.log.empty() ? "" : "\n") + std::move(line);
  has_actions_ = true;
}

}  // namespace syncline::cluster
