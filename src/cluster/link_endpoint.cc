#include "cluster/link_endpoint.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace syncline::cluster {
namespace {

using transport::SendResult;
using transport::tcp::IoResult;
using transport::tcp::IoState;

constexpr std::size_t kPieces = 8;
constexpr int kReadsAtATime = 16;  // of up to 1 MiB; then others get their turn

LinkConfig config_of(const LinkOptions& options) {
  LinkConfig config;
  config.self_rank = options.self_rank;
  config.peer_rank = options.peer_rank;
  config.peer_host = options.peer_host;
  config.view = options.view;
  config.self_incarnation = options.self_incarnation;
  config.peer_incarnation = options.peer_incarnation;
  config.suspect = options.suspect;
  config.silence = options.silence;
  return config;
}

}  // namespace

LinkEndpoint::LinkEndpoint(event::Poller& poller, const Clock& clock, transport::tcp::Fd fd,
                           LinkOptions options)
    : poller_(poller),
      clock_(clock),
      options_(std::move(options)),
      link_(config_of(options_), clock.now()),
      rail_(std::move(fd)),
      now_(clock.now()) {
  poller_.add(rail_.fd(), EPOLLIN, [this](std::uint32_t events) { on_event(events); });
}

LinkEndpoint::~LinkEndpoint() {
  link_.close();
  flush();
  drop_probe();
  if (!rail_.is_open()) return;
  poller_.remove(rail_.fd());
  rail_.close();
}

SendResult LinkEndpoint::try_send(const transport::FrameHeader& header, const void* payload) {
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
    if (!parse_next() && !read_once()) break;
  }
  if (link_.has_output()) flush();
  act();
  return has_head_ ? &head_.frame : nullptr;
}

// Takes frames off the queue until one for the layer above is the head.
bool LinkEndpoint::settle_head() {
  while (!queue_.empty()) {
    head_ = queue_.front();
    queue_.pop();
    if (head_.kind == Incoming::kDeliver) return has_head_ = true;
    rail_.staging().release(head_.block);
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
  rail_.staging().release(head_.block);
  link_.consumed(head_.rail_seq, head_.bytes, now_);
  if (link_.has_output()) flush();
}

bool LinkEndpoint::parse_next() {
  transport::tcp::Staging& staging = rail_.staging();
  if (!has_header_) {
    if (staging.size() < wire::kHeaderBytes || !link_.on_header(staging.data())) return false;
    has_header_ = true;
  }
  ReceivedFrame received;
  received.bytes = link_.frame_bytes();
  if (staging.size() < received.bytes) return false;
  received.kind = link_.on_frame(staging.data(), received.frame, received.rail_seq);
  if (received.kind == Incoming::kClosed) return false;
  has_header_ = false;
  if (received.kind == Incoming::kControl) {
    staging.skip(received.bytes);
    return true;
  }
  received.block = staging.take(received.bytes);
  queue_.push(received);
  return true;
}

// False: nothing more can be read now.
bool LinkEndpoint::read_once() {
  if (!rail_.is_open() || link_.state() == Link::State::kClosed) return false;
  const std::size_t frame_bytes = has_header_ ? link_.frame_bytes() : wire::kHeaderBytes;
  const IoResult result = rail_.read(frame_bytes, wire::kFrameBytesMax);
  if (result.state == IoState::kOk) {
    link_.on_heard(clock_.now());
    return true;
  }
  if (result.state != IoState::kAgain) end(result);
  return false;
}

void LinkEndpoint::read_ahead() {
  for (int reads = 0; reads < kReadsAtATime; ++reads) {
    while (parse_next()) {
    }
    if (!read_once()) return;
  }
  while (parse_next()) {
  }
}

void LinkEndpoint::flush() {
  std::array<std::span<const std::byte>, kPieces> pieces;
  while (link_.has_output()) {
    const std::size_t count = link_.output(pieces);
    std::size_t offered = 0;
    for (std::size_t i = 0; i < count; ++i) offered += pieces[i].size();
    const IoResult result = rail_.write({pieces.data(), count});
    if (result.state == IoState::kOk) link_.on_written(result.bytes, now_);
    if (result.state == IoState::kAgain ||
        (result.state == IoState::kOk && result.bytes < offered)) {
      return want_writable(true);
    }
    if (result.state != IoState::kOk) {
      read_ahead();  // the peer's last frames may have arrived before the reset
      return end(result);
    }
  }
  want_writable(false);
}

void LinkEndpoint::progress(Nanos now) {
  now_ = now;
  read_ahead();
  if (probe_.valid()) check_probe();
  link_.tick(now);
  if (link_.has_output()) flush();
  act();
}

bool LinkEndpoint::arm() {
  while (parse_next()) {
  }
  if (link_.has_output()) flush();
  act();
  if (has_head_ || settle_head()) return false;
  if (send_blocked_ && link_.stored_bytes() < blocked_at_) {
    send_blocked_ = false;
    return false;
  }
  if (!link_.status().ok() && !closure_shown_) {
    closure_shown_ = true;
    return false;
  }
  return true;
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

void LinkEndpoint::on_event(std::uint32_t events) {
  if ((events & ~std::uint32_t{EPOLLOUT}) != 0) read_ahead();
  if (link_.has_output()) {
    flush();
  } else {
    want_writable(false);
  }
  act();
}

void LinkEndpoint::want_writable(bool wanted) {
  if (wanted == wants_writable_ || !rail_.is_open()) return;
  wants_writable_ = wanted;
  poller_.modify(rail_.fd(), wanted ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void LinkEndpoint::end(const IoResult& result) {
  switch (result.state) {
    case IoState::kEof:
      return link_.on_end("the peer closed it", now_);
    case IoState::kReset:
      return link_.on_end("the peer's kernel reset it", now_);
    default:
      return link_.on_end(std::strerror(result.error), now_);
  }
}

// Carries out what the link asks for. Only here the connection is closed, never inside a read.
void LinkEndpoint::act() {
  while (link_.has_actions()) {
    const LinkActions actions = link_.take_actions();
    if (!actions.log.empty() && options_.log) options_.log(actions.log);
    if (actions.disconnect && rail_.is_open()) {
      poller_.remove(rail_.fd());
      rail_.close();
    }
    if (actions.probe) start_probe();
  }
}

void LinkEndpoint::start_probe() {
  drop_probe();
  if (options_.peer_address.length() == 0) return;
  transport::tcp::Connecting attempt = transport::tcp::start_connect(options_.peer_address);
  if (attempt.error != 0) {
    const bool refused = attempt.error == ECONNREFUSED;
    return link_.on_probe(refused ? ProbeResult::kRefused : ProbeResult::kNoAnswer, now_);
  }
  probe_ = std::move(attempt.fd);
  poller_.add(probe_.get(), EPOLLOUT, [this](std::uint32_t) {
    check_probe();
    act();
  });
  check_probe();
}

void LinkEndpoint::check_probe() {
  const int error = transport::tcp::connect_error(probe_.get());
  if (error == EINPROGRESS) return;
  drop_probe();
  if (error == 0) return link_.on_probe(ProbeResult::kAnswered, now_);
  link_.on_probe(error == ECONNREFUSED ? ProbeResult::kRefused : ProbeResult::kNoAnswer, now_);
}

void LinkEndpoint::drop_probe() {
  if (!probe_.valid()) return;
  poller_.remove(probe_.get());
  probe_.reset();
}

Result<std::unique_ptr<transport::Endpoint>> make_link_endpoint(event::Poller& poller,
                                                                const Clock& clock, int fd,
                                                                LinkOptions options) {
  transport::tcp::Fd owned(fd);
  if (transport::tcp::remote_address(fd).length() == 0) {
    return Status(Code::kLinkDown, "the connection to rank " + std::to_string(options.peer_rank) +
                                       " on host " + options.peer_host +
                                       " ended before the link began; does that rank still run?")
        .with_peer(options.peer_rank);
  }
  return std::unique_ptr<transport::Endpoint>(
      std::make_unique<LinkEndpoint>(poller, clock, std::move(owned), std::move(options)));
}

}  // namespace syncline::cluster
