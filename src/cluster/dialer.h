// Dialer: one authenticated connection to a peer that may not listen yet.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/handshake_socket.h"
#include "cluster/outside.h"
#include "transport/listener.h"

namespace syncline::cluster {

struct DialOptions {
  std::vector<transport::tcp::Address> addresses;  // tried in turn
  HandshakeConfig handshake;                       // peer_rank says whom it looks for
  bool insecure = false;                           // talk to remote peers although there is no key
  // A peer that has listened refuses connections only when its process is gone: kPeerLost at once.
  bool refused_is_final = false;
  Nanos deadline = 0;  // on the clock
  // Of one attempt to connect, and of the pause between two; 0: the defaults.
  Nanos connect_limit = 0;
  Nanos backoff_max = 0;
  transport::tcp::Address from;  // the local address to use; length() == 0: the kernel's choice
  Outside outside;
};

// Confined to its poller. States: waiting -> connecting -> handshaking -> ended; back to waiting
// after what may pass (refused, unreachable, no answer, closed, busy), to ended after what will not
// (another program, wrong key, another job, another process). An address gets 300 ms to connect
// while others wait, else 1 s: own attempts, since the kernel's back off too far.
class Dialer {
 public:
  Dialer(event::Poller& poller, const Clock& clock, DialOptions options);

  // Call after every poll and at least every 100 ms.
  void progress(Nanos now);
  bool ended() const { return result_.has_value(); }
  // Once, after ended(). Errors name the peer, its address and the last reason.
  Result<AuthenticatedSocket> take();
  // Why the latest attempt failed; ok before.
  const Status& last_error() const { return last_error_; }
  // Of a listener's refusal, if the latest attempt ended so.
  std::optional<wire::Reject> reject() const { return reject_; }
  // True when the other end was something that speaks another protocol.
  bool not_syncline() const { return not_syncline_; }

 private:
  void start_attempt(Nanos now);
  void attempt_failed(Nanos now, const Status& why);
  void connect_failed(Nanos now, int error);
  void check_connected(Nanos now);
  void on_connected(Nanos now);
  void check_handshake(Nanos now);
  void expire();
  void drop_attempt();
  const transport::tcp::Address& target() const { return options_.addresses[next_]; }

  event::Poller& poller_;
  DialOptions options_;
  std::size_t next_ = 0;  // into addresses
  std::unique_ptr<transport::Attempt> connecting_;
  Nanos attempt_until_ = 0;
  Nanos retry_at_ = 0;
  Nanos backoff_;
  std::unique_ptr<HandshakeSocket> handshaking_;
  transport::tcp::Address local_;  // of the connection that is in its handshake
  Status last_error_;
  std::optional<wire::Reject> reject_;
  bool not_syncline_ = false;
  std::optional<Result<AuthenticatedSocket>> result_;
  event::Watch watch_;  // after what is connecting: ends before it
};

}  // namespace syncline::cluster
