#include "cluster/link_endpoint.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "cluster/process_name.h"

namespace syncline::cluster {
namespace {

using transport::IoResult;
using transport::IoState;
using transport::SendResult;

constexpr std::size_t kPieces = 8;
constexpr int kReadsAtATime = 16;  // of up to 1 MiB; then others get their turn

LinkConfig config_of(const LinkOptions& options) {
  LinkConfig config;
  config.self_rank = options.self_rank;
  config.peer_rank = options.peer_rank;
  config.peer_host = options.peer_host;
  config.workers = options.workers;
  config.view = options.view;
  config.self_incarnation = options.self_incarnation;
  config.peer_incarnation = options.peer_incarnation;
  config.suspect = options.suspect;
  config.silence = options.silence;
  config.rails = options.rails;
  config.heals = options.heals;
  config.dials = options.dial != nullptr;
  return config;
}

}  // namespace

LinkEndpoint::LinkEndpoint(event::Poller& poller, const Clock& clock,
                           std::unique_ptr<transport::Stream> stream, LinkOptions options)
    : poller_(poller),
      clock_(clock),
      options_(std::move(options)),
      link_(config_of(options_), clock.now()),
      rails_(static_cast<std::size_t>(options_.rails)),
      far_(stream->is_far()),
      now_(clock.now()) {
  watch(0, std::move(stream));
}

LinkEndpoint::~LinkEndpoint() {
  link_.close();
  flush();
  for (int rail = 0; rail < options_.rails; ++rail) unwatch(rail);
  if (options_.on_destroy) options_.on_destroy();
}

SendResult LinkEndpoint::try_send(const transport::FrameHeader& header, const void* payload) {
  if (header.yields && has_output()) {
    flush();
    yielding_ = has_output() && link_.status().ok();
    if (yielding_) return SendResult::kWouldBlock;
  }
  SendResult result = link_.send(header, payload);
  if (result == SendResult::kWouldBlock) {
    // The acknowledgement that makes room may be waiting, behind frames that nobody has read yet.
    flush();
    read_ahead();
    result = link_.send(header, payload);
    send_blocked_ = result == SendResult::kWouldBlock;
    blocked_at_ = link_.stored_bytes();
  }
  if (result == SendResult::kAccepted) flush();
  act();
  return result;
}

const transport::Frame* LinkEndpoint::front() {
  while (!has_head_) {
    if (settle_head()) break;
    if (!read_more()) break;
  }
  if (has_output()) flush();
  act();
  return has_head_ ? &head_.frame : nullptr;
}

// One step on any rail; false when none can go on now.
bool LinkEndpoint::read_more() {
  bool any = false;
  for (int rail = 0; rail < options_.rails; ++rail) any |= parse_next(rail) || read_once(rail);
  return any;
}

// Takes frames off the queue until one for the layer above is the head.
bool LinkEndpoint::settle_head() {
  while (!queue_.empty()) {
    head_ = queue_.front();
    queue_.pop();
    if (head_.kind == Incoming::kDeliver) return has_head_ = true;
    at(head_.rail).io.staging().release(head_.block);
    if (head_.kind == Incoming::kGoodbye) {
      link_.goodbye_reached();
    } else {
      link_.consumed(head_.rail_seq, head_.bytes, now_);
    }
  }
  return false;
}

void LinkEndpoint::pop() {
  SYNCLINE_ASSERT(has_head_, "pop() needs a front()");
  has_head_ = false;
  at(head_.rail).io.staging().release(head_.block);
  link_.consumed(head_.rail_seq, head_.bytes, now_);
  if (has_output()) flush();
}

bool LinkEndpoint::parse_next(int rail) {
  RailIo& from = at(rail);
  transport::tcp::Staging& staging = from.io.staging();
  if (!from.has_header) {
    if (staging.size() < wire::kHeaderBytes || !link_.on_header(staging.data(), now_, rail)) {
      return false;
    }
    from.has_header = true;
  }
  ReceivedFrame received;
  received.rail = rail;
  received.bytes = link_.frame_bytes(rail);
  if (staging.size() < received.bytes) return false;
  received.kind = link_.on_frame(staging.data(), received.frame, received.rail_seq, now_, rail);
  if (received.kind == Incoming::kClosed) return false;
  from.has_header = false;
  if (received.kind == Incoming::kControl) {
    staging.skip(received.bytes);
    return true;
  }
  received.block = staging.take(received.bytes);
  queue_.push(received);
  return true;
}

// False: nothing more can be read now.
bool LinkEndpoint::read_once(int rail) {
  RailIo& from = at(rail);
  if (!from.io.is_open() || !link_.is_connected(rail)) return false;
  const std::size_t frame_bytes = from.has_header ? link_.frame_bytes(rail) : wire::kHeaderBytes;
  const IoResult result = from.io.read(frame_bytes, wire::kFrameBytesMax);
  if (result.state == IoState::kOk) {
    now_ = clock_.now();
    link_.on_heard(now_, rail);
    return true;
  }
  if (result.state != IoState::kAgain) end(rail, result);
  return false;
}

void LinkEndpoint::read_ahead(int rail) {
  for (int reads = 0; reads < kReadsAtATime; ++reads) {
    while (parse_next(rail)) {
    }
    if (!read_once(rail)) return;
  }
  while (parse_next(rail)) {
  }
}

void LinkEndpoint::read_ahead() {
  for (int rail = 0; rail < options_.rails; ++rail) read_ahead(rail);
}

bool LinkEndpoint::has_output() const {
  for (int rail = 0; rail < options_.rails; ++rail) {
    if (link_.has_output(rail)) return true;
  }
  return false;
}

void LinkEndpoint::flush() {
  for (int rail = 0; rail < options_.rails; ++rail) flush(rail);
}

void LinkEndpoint::flush(int rail) {
  std::array<std::span<const std::byte>, kPieces> pieces;
  while (link_.has_output(rail)) {
    const std::size_t count = link_.output(pieces, rail);
    if (count == 0) break;  // another rail took what there was
    std::size_t offered = 0;
    for (std::size_t i = 0; i < count; ++i) offered += pieces[i].size();
    const IoResult result = at(rail).io.write({pieces.data(), count});
    if (result.state == IoState::kOk) link_.on_written(result.bytes, now_, rail);
    if (result.state == IoState::kAgain ||
        (result.state == IoState::kOk && result.bytes < offered)) {
      return want_writable(rail, true);
    }
    if (result.state != IoState::kOk) {
      read_ahead(rail);  // the peer's last frames may have arrived before the reset
      return end(rail, result);
    }
  }
  want_writable(rail, false);
}

void LinkEndpoint::progress(Nanos now) {
  now_ = now;
  read_ahead();
  if (prober_ != nullptr) check_probe();
  link_.tick(now);
  act();
  if (options_.dial) dial(now);
  if (has_output()) flush();
  act();
}

transport::Armed LinkEndpoint::arm() {
  for (int rail = 0; rail < options_.rails; ++rail) {
    while (parse_next(rail)) {
    }
  }
  if (has_output()) flush();
  act();
  if (has_head_ || settle_head()) return transport::Armed::kNo;
  if (send_blocked_ && link_.stored_bytes() < blocked_at_) {
    send_blocked_ = false;
    return transport::Armed::kNo;
  }
  if (yielding_ && !has_output()) {
    yielding_ = false;
    return transport::Armed::kNo;
  }
  if (!link_.status().ok() && !closure_shown_) {
    closure_shown_ = true;
    return transport::Armed::kNo;
  }
  return transport::Armed::kYes;
}

void LinkEndpoint::close() {
  link_.close();
  flush();
  act();
}

void LinkEndpoint::report_dead(const std::string& what) {
  link_.on_evidence(what);
  act();
}

void LinkEndpoint::on_event(int rail, std::uint32_t events) {
  if ((events & ~std::uint32_t{EPOLLOUT}) != 0) read_ahead(rail);
  if (has_output()) {
    flush();
  } else {
    want_writable(rail, false);
  }
  act();
}

void LinkEndpoint::want_writable(int rail, bool wanted) {
  RailIo& to = at(rail);
  if (wanted == to.wants_writable || !to.io.is_open() || to.io.fd() < 0) return;
  to.wants_writable = wanted;
  poller_.modify(to.io.fd(), wanted ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void LinkEndpoint::end(int rail, const IoResult& result) {
  switch (result.state) {
    case IoState::kEof:
      return link_.on_end("the peer closed it", now_, rail);
    case IoState::kReset:
      return link_.on_end("the peer's kernel reset it", now_, rail);
    default:
      return link_.on_end(std::strerror(result.error), now_, rail);
  }
}

Result<std::unique_ptr<LinkEndpoint>> make_link_endpoint(event::Poller& poller, const Clock& clock,
                                                         int fd, LinkOptions options) {
  transport::tcp::Fd owned(fd);
  if (transport::tcp::remote_address(fd).length() == 0) {
    return Status(Code::kLinkDown, "the connection to " +
                                       process_name(options.peer_rank, options.workers) +
                                       " on host " + options.peer_host +
                                       " ended before the link began; does that rank still run?")
        .with_peer(options.peer_rank);
  }
  return std::make_unique<LinkEndpoint>(
      poller, clock, std::make_unique<transport::tcp::SocketStream>(std::move(owned)),
      std::move(options));
}

}  // namespace syncline::cluster
