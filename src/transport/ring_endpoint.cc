#include "transport/ring_endpoint.h"

#include <unistd.h>

namespace syncline::transport {
namespace {
constexpr Nanos kBeatInterval = 100 * kMillisecond;
}  // namespace

RingEndpoint::RingEndpoint(RingEndpointOptions options)
    : options_(std::move(options)),
      producer_(options_.outbound, options_.capacity),
      consumer_(options_.inbound, options_.capacity) {}

RingEndpoint::~RingEndpoint() {
  close();
  if (options_.peer_doorbell_fd >= 0) ::close(options_.peer_doorbell_fd);
}

SendResult RingEndpoint::try_send(const FrameHeader& header, const void* payload) {
  if (!status_.ok() || said_goodbye_) return SendResult::kClosed;
  if (!producer_.try_push(header, payload)) {
    send_blocked_ = true;
    blocked_bytes_ = header.length;
    return SendResult::kWouldBlock;
  }
  send_blocked_ = false;
  if (producer_.take_consumer_wait()) ring_peer();
  return SendResult::kAccepted;
}

void RingEndpoint::pop() {
  consumer_.pop();
  if (consumer_.take_producer_wait()) ring_peer();
}

void RingEndpoint::progress(Nanos now) {
  if (last_heard_ == 0) last_heard_ = now;
  if (now - last_beat_ >= kBeatInterval) {
    last_beat_ = now;
    producer_.beat();
  }
  const std::uint64_t beat = consumer_.heartbeat();
  if (beat != heartbeat_seen_) {
    heartbeat_seen_ = beat;
    last_heard_ = now;
  }
  if (!status_.ok()) return;
  if (consumer_.corrupt()) {
    status_ = Status(Code::kCorrupt, options_.peer + " wrote a record that cannot be right")
                  .with_peer(options_.peer_rank);
  } else if (consumer_.finished()) {
    status_ =
        Status(Code::kShutdown, options_.peer + " left the job").with_peer(options_.peer_rank);
  }
}

Armed RingEndpoint::arm() {
  const bool armed = consumer_.arm() && (!send_blocked_ || producer_.arm(blocked_bytes_));
  return armed ? Armed::kOnceFenced : Armed::kNo;
}

bool RingEndpoint::stays_armed() {
  if (!consumer_.stays_armed()) return false;
  return !send_blocked_ || producer_.stays_armed(blocked_bytes_);
}

void RingEndpoint::disarm() {
  consumer_.disarm();
  producer_.disarm();
}

void RingEndpoint::close() {
  if (said_goodbye_) return;
  said_goodbye_ = true;
  producer_.say_goodbye();
  if (producer_.take_consumer_wait()) ring_peer();
}

void RingEndpoint::peer_died() {
  if (!status_.ok() || consumer_.goodbye_said()) return;
  status_ = Status(Code::kPeerLost, options_.peer + " died (its process ended without a goodbye)")
                .with_peer(options_.peer_rank);
}

void RingEndpoint::ring_peer() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto ignored = ::write(options_.peer_doorbell_fd, &one, sizeof one);
}

}  // namespace syncline::transport
