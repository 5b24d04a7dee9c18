// HandshakeSocket: a handshake core on a connection. AuthenticatedSocket: what comes out.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cluster/handshake.h"
#include "event/watch.h"
#include "transport/stream.h"
#include "transport/tcp/address.h"

namespace syncline::cluster {

// A connection whose other end proved the job's key. Nothing of what it sent later has been read.
struct AuthenticatedSocket {
  std::unique_ptr<transport::Stream> stream;  // watched by no poller
  int peer_rank = -1;
  std::uint64_t peer_incarnation = 0;
  std::uint16_t rail = 0;
  wire::ConnectionRole role = wire::ConnectionRole::kData;
  SessionKeys keys;
  std::string peer_address;
  transport::tcp::Address local;  // of this end; only where this side dialled
};

// Confined. Reads and writes when the poller says so, or in progress() where the stream has no
// descriptor; ends once, seen by ended(). Destroy it outside of poller callbacks.
class HandshakeSocket {
 public:
  HandshakeSocket(event::Poller& poller, std::unique_ptr<transport::Stream> stream, Handshake core,
                  Nanos deadline);

  // Reads what is there, whether or not the poller has said so yet.
  void hear();
  // Fires the deadline.
  void progress(Nanos now);
  // Done or failed, and what had to be said is written.
  bool ended() const;
  const Handshake& core() const { return core_; }
  Nanos deadline() const { return deadline_; }

  // Precondition: ended() and core().done().
  AuthenticatedSocket take(std::string peer_address);

 private:
  void on_ready();
  void read();
  void write();

  std::unique_ptr<transport::Stream> stream_;
  Handshake core_;
  Nanos deadline_;
  std::vector<std::byte> unsent_;
  event::Watch watch_;  // after the stream: ends before it
};

}  // namespace syncline::cluster
