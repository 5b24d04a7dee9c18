// ControlChannel: authenticated messages over a connection, for the rendezvous and for admission to
// the mesh. Each message is u32 length, payload, and a 32-byte HMAC-SHA-256 over (message number,
// length, payload) with the connection's key of that direction: nothing can be changed, repeated or
// reordered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "cluster/handshake_socket.h"

namespace syncline::cluster {

// Confined to its poller, or stepped by progress() where the stream has no descriptor. Reads no
// byte beyond the message it is in, so that the connection can be handed on. Memory grows with what
// arrived, not with what was announced.
class ControlChannel {
 public:
  // Messages above `bytes_max` fail the channel.
  ControlChannel(event::Poller& poller, AuthenticatedSocket socket, std::size_t bytes_max);

  // Reads and writes what no poller looks after. Call it before receive().
  void progress();

  void send(const std::vector<std::byte>& message);
  // The next whole, verified message.
  std::optional<std::vector<std::byte>> receive();
  bool has_unsent() const { return !unsent_.empty(); }
  // Ok while open. kLinkDown: the other side closed; kCorrupt: it sent what it must not.
  const Status& status() const { return status_; }
  // Reads only so many more messages: what follows belongs to the next owner of the socket.
  void stop_reading_after(std::uint64_t messages);

  const AuthenticatedSocket& socket() const { return socket_; }
  // Unwatched. Precondition: nothing unsent.
  AuthenticatedSocket release();

 private:
  void on_ready();
  void read();
  bool read_some();
  void take_message();
  void write();
  void watch();
  Digest tag(const Secret& key, std::uint64_t number, Part payload) const;
  void fail(Code code, const std::string& why);

  AuthenticatedSocket socket_;
  std::size_t bytes_max_;
  std::vector<std::byte> incoming_;  // of the current message, length word included
  std::vector<std::byte> unsent_;
  std::deque<std::vector<std::byte>> received_;
  std::uint64_t sent_count_ = 0;
  std::uint64_t received_count_ = 0;
  std::uint64_t messages_left_ = ~std::uint64_t{0};
  Status status_;
  event::Watch watch_;  // after the stream: ends before it
};

}  // namespace syncline::cluster
