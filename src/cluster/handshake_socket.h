// HandshakeSocket: a handshake core on a connected socket. AuthenticatedSocket: what comes out.
#pragma once

#include <cstdint>
#include <string>

#include "cluster/handshake.h"
#include "event/poller.h"
#include "transport/tcp/socket.h"

namespace syncline::cluster {

// A connection whose other end proved the job's key. Nothing of what it sent later has been read.
struct AuthenticatedSocket {
  transport::tcp::Fd fd;  // non-blocking, no delay, watched by no poller
  int peer_rank = -1;
  std::uint64_t peer_incarnation = 0;
  std::uint16_t rail = 0;
  wire::ConnectionRole role = wire::ConnectionRole::kData;
  SessionKeys keys;
  std::string peer_address;
};

// Confined. Reads and writes when the poller says so; ends once, seen by ended(). Destroy it
// outside of poller callbacks.
class HandshakeSocket {
 public:
  HandshakeSocket(event::Poller& poller, transport::tcp::Fd fd, Handshake core, Nanos deadline);
  ~HandshakeSocket();
  HandshakeSocket(const HandshakeSocket&) = delete;
  HandshakeSocket& operator=(const HandshakeSocket&) = delete;

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
  void unwatch();

  event::Poller& poller_;
  transport::tcp::Fd fd_;
  Handshake core_;
  Nanos deadline_;
  std::vector<std::byte> unsent_;
  bool watched_ = false;
};

}  // namespace syncline::cluster
