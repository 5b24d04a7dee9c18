// Acceptor: a listener that hands out authenticated connections and turns everything else away.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <string>

#include "cluster/handshake_socket.h"
#include "cluster/outside.h"
#include "cluster/refusal_log.h"
#include "transport/listener.h"

namespace syncline::cluster {

struct AcceptorOptions {
  HandshakeConfig handshake;
  bool insecure = false;  // serve remote peers although there is no key
  std::string name;       // "rendezvous", "data": for the log
  LogLine log;
  Outside outside;
};

// Confined to its poller. At most kHalfOpenMax connections are in their handshake at once, each
// with 2 s and less than 4 KiB; when all are taken, the oldest one without a whole hello after
// kHelloPatience makes room, else the newcomer is told "busy" and dials again. Out of descriptors,
// it stops accepting for 100 ms: the kernel keeps the callers waiting.
//
// Probes (wire::ConnectionRole::kProbe) are answered and closed without asking anyone.
class Acceptor {
 public:
  static constexpr std::size_t kHalfOpenMax = 64;
  static constexpr Nanos kPause = 100 * kMillisecond;
  // A hello follows the connection at once, and its tag needs the key: whoever is not that far
  // holds up others. 2500 a second may do so before a rank has to dial twice; less patience would
  // have a flood cost this rank more.
  static constexpr Nanos kHelloPatience = 25 * kMillisecond;

  // May destroy neither the acceptor nor the poller.
  using OnAccept = std::function<void(AuthenticatedSocket socket)>;

  struct Stats {
    std::uint64_t accepted = 0;
    std::uint64_t probes = 0;
    std::uint64_t refused = 0;
  };

  Acceptor(event::Poller& poller, const Clock& clock, std::unique_ptr<transport::Listener> listener,
           AcceptorOptions options, OnAccept on_accept);
  // Of a socket that listens.
  Acceptor(event::Poller& poller, const Clock& clock, transport::tcp::Fd listener,
           AcceptorOptions options, OnAccept on_accept)
      : Acceptor(poller, clock, transport::tcp::make_listener(std::move(listener)),
                 std::move(options), std::move(on_accept)) {}

  // Call after every poll and at least every 100 ms: finishes handshakes, fires deadlines.
  void progress(Nanos now);
  void set_on_accept(OnAccept on_accept) { on_accept_ = std::move(on_accept); }
  // From now on links can take heal connections: see HandshakeConfig::heals_later.
  void welcome_heals() { options_.handshake.heals_later = false; }
  // For refusals that on_accept decides: counts and logs like the others.
  void note_refusal(const AuthenticatedSocket& socket, const std::string& why);

  const Stats& stats() const { return stats_; }
  std::size_t half_open() const { return half_open_.size(); }

 private:
  struct HalfOpen {
    std::unique_ptr<HandshakeSocket> socket;
    std::string source;  // host
    std::string address;
    Nanos since = 0;
  };
  void on_ready();
  void admit(transport::Listener::Accepted next);
  bool make_room(Nanos now);
  void end(HalfOpen& connection);
  void refuse(const std::string& source, const std::string& why);

  event::Poller& poller_;
  const Clock& clock_;
  std::unique_ptr<transport::Listener> listener_;
  AcceptorOptions options_;
  OnAccept on_accept_;
  RefusalLog refusals_;
  std::list<HalfOpen> half_open_;  // oldest first
  Stats stats_;
  Nanos paused_until_ = 0;  // 0: accepting
  event::Watch watch_;      // after the listener: ends before it
};

}  // namespace syncline::cluster
