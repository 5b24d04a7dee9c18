#include "cluster/link.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "base/planted.h"
#include "cluster/process_name.h"
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
constexpr std::size_t kWriteBytesOfSeveral = 128 * 1024;  // when rails share the frames
constexpr Nanos kHeartbeatInterval = 100 * kMillisecond;
constexpr Nanos kBrokenProbeInterval = 100 * kMillisecond;
constexpr Nanos kStandstill = 500 * kMillisecond;  // between ticks: this process stood still
constexpr std::uint32_t kDamageStreakMax = 16;     // without a new frame: it will not get better

using wire::distance;

}  // namespace

Link::Link(LinkConfig config, Nanos now)
    : config_(std::move(config)),
      rails_(static_cast<std::size_t>(config_.rails)),
      store_(config_.window, wire::kFrameBytesMax, config_.rails),
      last_heard_(now),
      last_tick_(now) {
  at(0).state = RailState::kUp;
  at(0).last_heard = at(0).last_written = at(0).since = now;
}

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

std::uint32_t Link::cumulative_ack() const {
  if (SYNCLINE_PLANTED(ack_off_by_one)) return received_ + (received_ > 0 ? 1 : 0);
  return peer_left_ ? received_ : consumed_;
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
    status_ = Status(Code::kShutdown, process_name(config_.self_rank, config_.workers) +
                                          " closed its link to " + peer())
                  .with_peer(config_.peer_rank)
                  .with_view(config_.view);
  }
  if (!is_connected() && peer_left_) return finish(status_);
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
  if (state_ == State::kOpen) state_ = is_connected() ? State::kClosing : State::kClosed;
}

void Link::on_heard(Nanos now, int rail) {
  last_heard_ = at(rail).last_heard = now;
  ack_rail_ = rail;
  excused_ = 0;
  if (suspected_) {
    suspected_ = false;
    log(peer() + " is heard again");
  }
}

bool Link::on_header(const std::byte* header, Nanos now, int rail) {
  Rail& from = at(rail);
  if (from.state == RailState::kDown) return false;
  const wire::Expectation expected{config_.view, config_.peer_incarnation};
  const wire::Verdict verdict = wire::decode(header, expected, from.in);
  from.in_stale = verdict == wire::Verdict::kStaleView;
  switch (verdict) {
    case wire::Verdict::kOk:
      return true;
    case wire::Verdict::kStaleView:
      if (!logged_stale_) log(peer() + ": " + wire::explain(verdict, header, expected));
      return logged_stale_ = true;
    case wire::Verdict::kBadMagic:
    case wire::Verdict::kBadVersion:
    case wire::Verdict::kBadHeaderCrc:
      // The handshake settled the version: these are damage, and where the next frame begins is
      // unknown.
      if (on_damage(rail, wire::explain(verdict, header, expected), now) != Incoming::kClosed) {
        on_end("its bytes were damaged on the way", now, rail);
      }
      return false;
    default:
      fail_corrupt(wire::explain(verdict, header, expected));
      return false;
  }
}

Incoming Link::on_frame(const std::byte* frame, transport::Frame& out, std::uint32_t& rail_seq,
                        Nanos now, int rail) {
  Rail& from = at(rail);
  if (state_ == State::kClosed || from.state == RailState::kDown) return Incoming::kClosed;
  const std::byte* body = frame + wire::kHeaderBytes;
  const wire::Header& in = from.in;
  if (in.length > 0 && !SYNCLINE_PLANTED(no_payload_check) &&
      kernels::crc32c(body, in.length) != in.payload_crc) {
    if (wire::is_sequenced(in.type) && distance(received_, in.rail_seq) > 0) {
      damage_pending_ = true;
      gap_since_ = now;
      nacks_.push_back(in.rail_seq);
    }
    return on_damage(rail,
                     "the payload checksum of frame " + std::to_string(in.rail_seq) +
                         " does not fit; bytes were damaged on the way: check the network card "
                         "and cable of this path",
                     now);
  }
  on_ack(in.cum_ack);
  if (state_ == State::kClosed) return Incoming::kClosed;
  switch (in.type) {
    case Type::kResume:
      return on_resume(rail, body, now);
    case Type::kNack:
      on_nack(in.step);
      return Incoming::kControl;
    case Type::kRailDown:
      if (static_cast<int>(in.step) != rail && in.step < rails_.size()) {
        on_end("it ended at the other side", now, static_cast<int>(in.step));
      }
      return Incoming::kControl;
    default:
      if (!wire::is_sequenced(in.type)) return Incoming::kControl;
      rail_seq = in.rail_seq;
      if (ahead_count_ == 0) gap_since_ = now;
      return on_sequenced(from, body, out);
  }
}

// True if the frame is new; else the sender missed its acknowledgement.
bool Link::note_received(std::uint32_t rail_seq) {
  const std::int32_t ahead = distance(received_, rail_seq);
  if (SYNCLINE_PLANTED(no_duplicate_check) && ahead <= 0) return true;
  if (ahead <= 0 || ahead_[rail_seq % wire::kFramesAheadMax]) {
    ++stats_.duplicates;
    ack_now_ = true;
    return false;
  }
  damage_streak_ = 0;
  if (distance(ahead_last_, rail_seq) > 0) ahead_last_ = rail_seq;
  if (ahead > 1) {
    ahead_[rail_seq % wire::kFramesAheadMax] = true;
    ++ahead_count_;
    return true;
  }
  damage_pending_ = false;
  received_ = rail_seq;
  while (ahead_count_ > 0 && ahead_[(received_ + 1) % wire::kFramesAheadMax]) {
    ahead_[++received_ % wire::kFramesAheadMax] = false;
    --ahead_count_;
  }
  return true;
}

Incoming Link::on_sequenced(const Rail& rail, const std::byte* body, transport::Frame& out) {
  const wire::Header& in = rail.in;
  const auto ahead = distance(received_, in.rail_seq);
  if (ahead > static_cast<std::int32_t>(wire::kFramesAheadMax) ||
      (goodbye_came_ && distance(goodbye_seq_, in.rail_seq) > 0)) {
    return fail_corrupt("frame " + std::to_string(in.rail_seq) + " came where frame " +
                        std::to_string(received_ + 1) + " was due");
  }
  if (!note_received(in.rail_seq)) return Incoming::kControl;
  if (in.type == Type::kGoodbye) {
    goodbye_came_ = true;
    goodbye_seq_ = in.rail_seq;
  }
  if (goodbye_came_ && received_ == goodbye_seq_) peer_left_ = ack_now_ = true;
  if (in.type == Type::kGoodbye) return Incoming::kGoodbye;
  if (rail.in_stale) return Incoming::kSkip;

  FrameHeader& header = out.header;
  header.type = static_cast<FrameType>(in.type);
  header.flags = in.flags & wire::kCallerFlags;
  header.comm = in.comm;
  header.op = in.op;
  header.step = in.step;
  header.segment = in.segment;
  header.has_fingerprint = (in.flags & wire::kFlagFingerprint) != 0;
  const std::size_t prefix = header.has_fingerprint ? wire::kFingerprintBytes : 0;
  if (prefix > 0) std::memcpy(header.fingerprint.data(), body, prefix);
  header.length = in.length - static_cast<std::uint32_t>(prefix);
  out.payload = body + prefix;
  return Incoming::kDeliver;
}

void Link::on_ack(std::uint32_t cum_ack) {
  const std::int32_t fresh = distance(last_acked_, cum_ack);
  if (fresh <= 0 || SYNCLINE_PLANTED(acks_ignored)) return;
  if (static_cast<std::size_t>(fresh) > store_.sent_frames()) {
    fail_corrupt("it acknowledged frame " + std::to_string(cum_ack) + ", which was never sent");
    return;
  }
  store_.acknowledge(static_cast<std::size_t>(fresh));
  last_acked_ = cum_ack;
}

void Link::on_end(const std::string& how, Nanos now, int rail) {
  if (at(rail).state == RailState::kDown) return;
  end_rail(rail);
  if (state_ == State::kClosed) return;
  if (is_connected()) {
    log("rail " + std::to_string(rail) + " to " + peer() + " ended: " + how);
    rails_to_report_ |= 1u << rail;
    return;
  }
  if (state_ == State::kClosing && (peer_left_ || store_.frames() == 0)) return finish(status_);
  if (peer_left_) return;  // frames before its goodbye are still to be read
  broken_ = Status(Code::kLinkDown, "the connection to " + peer() + " broke: " + how)
                .with_peer(config_.peer_rank)
                .with_view(config_.view);
  broken_since_ = now;
  if (state_ == State::kOpen) state_ = State::kBroken;
  want_probe(now);
}

void Link::on_written(std::size_t bytes, Nanos now, int rail) {
  Rail& to = at(rail);
  to.last_written = now;
  if (to.control_left > 0) {
    SYNCLINE_ASSERT(bytes <= to.control_left, "a control frame is offered alone");
    to.control_left -= bytes;
    return;
  }
  if (to.state != RailState::kDown) store_.wrote(bytes, rail);
}

void Link::on_probe(ProbeResult result, Nanos now) {
  if (is_connected() || state_ == State::kClosed) return;
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
  if (gap > kStandstill) {
    excused_ += gap;
    for (Rail& rail : rails_) rail.last_heard = rail.since = now;
  }
  if (state_ == State::kClosed) return;
  if (owed_bytes_ > 0 && now - owed_since_ >= kAckDelay) ack_now_ = true;
  for (int rail = 0; rail < config_.rails; ++rail) {
    const bool idle = now - at(rail).last_written >= kHeartbeatInterval;
    if (idle && at(rail).state == RailState::kUp && !has_output(rail)) {
      at(rail).heartbeat_now = true;
    }
  }
  watch_rails(now);
  if (ahead_count_ > 0 || damage_pending_) repair_gap(now);
  if (!is_connected() && !peer_left_ && now >= next_probe_) want_probe(now);
  if (!peer_left_) watch_silence(now);
}

void Link::watch_silence(Nanos now) {
  const Nanos silent = now - last_heard_ - excused_;
  const auto text = [](Nanos span) { return std::to_string(span / kMillisecond) + " ms"; };
  if (SYNCLINE_PLANTED(endless_patience)) return;
  if (silent >= (SYNCLINE_PLANTED(early_eviction) ? kSecond : config_.silence)) {
    const std::string why =
        peer() + " was silent for " + text(silent) + " (limit " + text(config_.silence) + ")";
    if (!is_connected() && probe_answered_) {
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

bool Link::has_output(int rail) const {
  const Rail& to = at(rail);
  if (to.state == RailState::kDown) return false;
  if (to.control_left > 0 || to.owes_resume) return true;
  if (to.state == RailState::kResuming) return false;
  return store_.has_unwritten(rail) || to.heartbeat_now || has_control(rail);
}

std::size_t Link::output(std::span<std::span<const std::byte>> pieces, int rail) {
  Rail& to = at(rail);
  if (to.state == RailState::kDown || pieces.empty()) return 0;
  if (to.control_left == 0 && !store_.is_inside_frame(rail)) build_control(rail);
  if (to.control_left > 0) {
    pieces[0] = {to.control.data() + to.control.size() - to.control_left, to.control_left};
    return 1;
  }
  if (to.state == RailState::kResuming) return 0;
  const std::size_t bytes_max = config_.rails == 1 ? kWriteBytes : kWriteBytesOfSeveral;
  const std::size_t count = store_.collect(
      pieces, bytes_max,
      [this, &to](std::byte* frame) {
        seal(frame);
        to.heartbeat_now = false;
      },
      rail);
  if (count > 0 || !(ack_now_ || to.heartbeat_now)) return count;
  build_frame(to, ack_now_ ? Type::kAck : Type::kHeartbeat, 0);
  pieces[0] = {to.control.data(), to.control_left};
  return 1;
}

// The last moment to put the newest acknowledgement into a frame.
void Link::seal(std::byte* frame) {
  wire::patch_ack(frame, cumulative_ack());
  owed_bytes_ = 0;
  ack_now_ = false;
}

bool Link::has_unsent() const {
  if (state_ == State::kClosed) return false;
  if (!peer_left_) return store_.frames() > 0;
  const auto owes = [this](const Rail& rail) {
    return rail.state != RailState::kDown && (ack_now_ || rail.control_left > 0);
  };
  if (std::any_of(rails_.begin(), rails_.end(), owes)) return true;
  for (int rail = 0; rail < config_.rails; ++rail) {
    if (store_.is_inside_frame(rail)) return true;
  }
  return false;
}

LinkActions Link::take_actions() {
  LinkActions taken = std::move(actions_);
  actions_ = {};
  has_actions_ = false;
  return taken;
}

std::string Link::peer() const {
  return process_name(config_.peer_rank, config_.workers) + " on host " + config_.peer_host;
}

// A damaged frame costs that frame; a path that damages everything ends the link.
Incoming Link::on_damage(int rail, const std::string& why, Nanos now) {
  ++stats_.damaged;
  if (!config_.heals) return fail_corrupt(why);
  if (++damage_streak_ >= kDamageStreakMax) {
    return fail_corrupt("nothing but damaged frames arrives: " + why);
  }
  if (now - logged_damage_ >= kSecond) {
    logged_damage_ = now;
    log("damaged bytes from " + peer() + " on rail " + std::to_string(rail) + ", " +
        std::to_string(stats_.damaged) + " so far; they come again: " + why);
  }
  return Incoming::kControl;
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
  for (int rail = 0; rail < config_.rails; ++rail) {
    if (at(rail).state != RailState::kDown) end_rail(rail);
  }
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
