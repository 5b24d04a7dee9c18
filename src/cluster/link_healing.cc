// Link: rails that end, come back and share the frames; what each side tells the other about it.
#include <algorithm>
#include <bit>
#include <cstring>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/planted.h"
#include "cluster/link.h"
#include "kernels/crc32c.h"

namespace syncline::cluster {
namespace {

using wire::Type;

constexpr Nanos kResumeLimit = kSecond;          // for the peer's resume frame
constexpr Nanos kGapLimit = 200 * kMillisecond;  // then the frame that is due is asked for again

}  // namespace

bool Link::is_connected() const {
  return std::any_of(rails_.begin(), rails_.end(),
                     [](const Rail& rail) { return rail.state != RailState::kDown; });
}

bool Link::another_is_alive(int rail, Nanos now) const {
  for (int other = 0; other < config_.rails; ++other) {
    if (other == rail || at(other).state != RailState::kUp) continue;
    if (now - at(other).last_heard < config_.rail_silence) return true;
  }
  return false;
}

bool Link::wants_connection(int rail, Nanos now) const {
  if (!config_.dials || state_ == State::kClosed || peer_left_) return false;
  if (state_ == State::kClosing && store_.frames() == 0) return false;
  const Rail& each = at(rail);
  if (each.state == RailState::kDown) return true;
  // The old connection may still come back: whichever speaks first wins.
  return each.state == RailState::kUp && now - each.last_heard >= config_.rail_silence;
}

void Link::share_window() {
  const auto up = std::count_if(rails_.begin(), rails_.end(),
                                [](const Rail& rail) { return rail.state == RailState::kUp; });
  store_.set_share(up > 1 ? config_.window / static_cast<std::size_t>(up) : SIZE_MAX);
}

void Link::on_connected(int rail, Nanos now) {
  if (state_ == State::kClosed) return;
  if (at(rail).state != RailState::kDown) end_rail(rail);
  Rail& fresh = at(rail);
  fresh.state = RailState::kResuming;
  fresh.owes_resume = true;
  fresh.since = fresh.last_heard = fresh.last_written = now;
  ++stats_.connections;
}

void Link::end_rail(int rail) {
  Rail& ended = at(rail);
  ended.state = RailState::kDown;
  ended.owes_resume = ended.heartbeat_now = false;
  ended.control_left = 0;
  if (!SYNCLINE_PLANTED(frames_die_with_the_rail)) store_.drop_rail(rail);
  share_window();
  actions_.disconnect |= 1u << rail;
  has_actions_ = true;
}

void Link::watch_rails(Nanos now) {
  for (int rail = 0; rail < config_.rails; ++rail) {
    const Rail& each = at(rail);
    if (each.state == RailState::kResuming && now - each.since >= kResumeLimit) {
      on_end("the peer did not resume on it", now, rail);
    } else if (each.state == RailState::kUp && now - each.last_heard >= config_.rail_silence &&
               another_is_alive(rail, now)) {
      on_end("silent for " + std::to_string((now - each.last_heard) / kMillisecond) +
                 " ms while another rail is not",
             now, rail);
    }
  }
}

// A frame, or the request for it, may have gone with a rail.
void Link::repair_gap(Nanos now) {
  if (now - gap_since_ < kGapLimit) return;
  gap_since_ = now;
  nacks_.push_back(received_ + 1);
}

Incoming Link::on_resume(int rail, const std::byte* body, Nanos now) {
  Rail& each = at(rail);
  ByteReader reader({body, each.in.length});
  const auto incarnation = reader.get<std::uint64_t>();
  const auto received = reader.get<std::uint32_t>();
  const auto bits = reader.get<std::uint32_t>();
  const std::byte* bitmap = body + wire::kResumeBytesMin;
  if (each.state != RailState::kResuming || incarnation != config_.self_incarnation ||
      bits > wire::kFramesAheadMax || each.in.length != wire::kResumeBytesMin + (bits + 7) / 8) {
    return fail_corrupt("its resume frame does not fit this link");
  }
  const std::int32_t known = wire::distance(last_acked_, received);
  if (known > static_cast<std::int32_t>(store_.sent_frames())) {
    return fail_corrupt("it resumed after frame " + std::to_string(received) +
                        ", which was never sent");
  }
  for (std::int32_t i = 0; i < known; ++i) store_.mark_arrived(static_cast<std::size_t>(i));
  for (std::uint32_t bit = 0; bit < bits; ++bit) {
    if ((bitmap[bit / 8] & std::byte(1u << (bit % 8))) == std::byte{0}) continue;
    const std::int32_t index = known + 1 + static_cast<std::int32_t>(bit);
    if (index < 0 || index >= static_cast<std::int32_t>(store_.sent_frames())) continue;
    store_.mark_arrived(static_cast<std::size_t>(index));
  }
  each.state = RailState::kUp;
  share_window();
  ++stats_.resumes;
  rails_to_report_ &= ~(1u << rail);
  if (state_ == State::kBroken) {
    state_ = State::kOpen;
    log("the link to " + peer() + " goes on after " +
        std::to_string((now - broken_since_) / kMillisecond) + " ms");
  }
  broken_ = Status();
  probe_answered_ = false;
  return Incoming::kControl;
}

void Link::on_nack(std::uint32_t rail_seq) {
  const std::int32_t index = wire::distance(last_acked_, rail_seq) - 1;
  if (index >= 0 && !SYNCLINE_PLANTED(deaf_to_requests))
    store_.send_again(static_cast<std::size_t>(index));
}

bool Link::has_control(int rail) const {
  const bool any = ack_now_ || !nacks_.empty() || rails_to_report_ != 0;
  return any && (rail == ack_rail_ || at(ack_rail_).state != RailState::kUp);
}

// Acknowledgements ride in data: those that must go alone are built by output().
void Link::build_control(int rail) {
  Rail& to = at(rail);
  if (to.owes_resume) {
    to.owes_resume = false;
    return build_resume(to);
  }
  if (to.state != RailState::kUp || !has_control(rail)) return;
  if (!nacks_.empty()) {
    build_frame(to, Type::kNack, nacks_.back());
    nacks_.pop_back();
  } else if (rails_to_report_ != 0) {
    const int ended = std::countr_zero(rails_to_report_);
    rails_to_report_ &= rails_to_report_ - 1;
    build_frame(to, Type::kRailDown, static_cast<std::uint32_t>(ended));
  }
}

void Link::build_frame(Rail& rail, Type type, std::uint32_t step) {
  wire::Header out;
  out.type = type;
  out.view = config_.view;
  out.incarnation = config_.self_incarnation;
  out.rail_seq = last_sent_;
  out.step = step;
  rail.control.resize(wire::kHeaderBytes);
  wire::encode(out, rail.control.data());
  seal(rail.control.data());
  rail.heartbeat_now = false;
  rail.control_left = rail.control.size();
}

void Link::build_resume(Rail& rail) {
  const std::uint32_t bits =
      ahead_count_ == 0 ? 0
                        : static_cast<std::uint32_t>(wire::distance(received_ + 1, ahead_last_));
  ByteWriter writer;
  writer.put<std::uint64_t>(config_.peer_incarnation);
  writer.put<std::uint32_t>(received_ + (SYNCLINE_PLANTED(resume_off_by_one) ? 1 : 0));
  writer.put<std::uint32_t>(bits);
  std::vector<std::byte> body = writer.take();
  body.resize(wire::kResumeBytesMin + (bits + 7) / 8);
  for (std::uint32_t bit = 0; bit < bits; ++bit) {
    if (!ahead_[(received_ + 2 + bit) % wire::kFramesAheadMax]) continue;
    body[wire::kResumeBytesMin + bit / 8] |= std::byte(1u << (bit % 8));
  }
  wire::Header out;
  out.type = Type::kResume;
  out.view = config_.view;
  out.incarnation = config_.self_incarnation;
  out.rail_seq = last_sent_;
  out.length = static_cast<std::uint32_t>(body.size());
  out.payload_crc = kernels::crc32c(body.data(), body.size());
  rail.control.resize(wire::kHeaderBytes);
  wire::encode(out, rail.control.data());
  seal(rail.control.data());
  rail.control.insert(rail.control.end(), body.begin(), body.end());
  rail.control_left = rail.control.size();
}

}  // namespace syncline::cluster
