// RingEndpoint: the Endpoint over two pair rings, shared by the transports whose peers map the same
// memory (inproc, shm).
#pragma once

#include <memory>
#include <string>

#include "transport/pair_ring.h"

namespace syncline::transport {

struct RingEndpointOptions {
  std::shared_ptr<void> memory;  // keeps the mapping of both rings alive
  void* outbound = nullptr;      // ring_bytes(capacity) each
  void* inbound = nullptr;
  std::size_t capacity = 0;
  int peer_doorbell_fd = -1;  // eventfd of the peer's poller
  std::string peer;           // "rank 3 (host b, pid 12)" for messages
  int peer_rank = -1;
  const char* transport_name = "";
};

// Confined to the baton's holder.
//
// States: open -> closed(kShutdown: peer's goodbye, or our close() | kPeerLost: peer_died() |
// kCorrupt).
class RingEndpoint : public Endpoint {
 public:
  explicit RingEndpoint(RingEndpointOptions options);
  ~RingEndpoint() override;

  SendResult try_send(const FrameHeader& header, const void* payload) override;
  const Frame* front() override { return consumer_.front(); }
  void note_read(std::uint64_t ticks) override { consumer_.note_read(ticks); }
  void pop() override;
  void progress(Nanos now) override;
  Armed arm() override;
  bool stays_armed() override;
  void disarm() override;
  Nanos last_heard() const override { return last_heard_; }
  bool has_unsent() const override { return false; }  // the memory outlives this process
  void close() override;
  Status status() const override { return status_; }
  const char* transport_name() const override { return options_.transport_name; }

  // Evidence from outside (its socket closed). Harmless after an orderly goodbye.
  void peer_died();

 private:
  void ring_peer();

  RingEndpointOptions options_;
  RingProducer producer_;
  RingConsumer consumer_;
  Status status_;
  Nanos last_beat_ = 0;
  Nanos last_heard_ = 0;
  std::uint64_t heartbeat_seen_ = 0;
  std::size_t blocked_bytes_ = 0;
  bool send_blocked_ = false;
  bool said_goodbye_ = false;
};

}  // namespace syncline::transport
