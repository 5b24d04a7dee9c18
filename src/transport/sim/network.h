// Network: hosts and connections in virtual time, with the faults that real ones have. Everything
// follows from the seed and the calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/clock.h"
#include "transport/listener.h"

namespace syncline::transport::sim {

// From one host to another over one rail. Changes take effect for what is written afterwards.
struct Path {
  Nanos latency = 100 * kMicrosecond;
  Nanos jitter = 0;               // each write is later by up to so much, in order within a stream
  std::int64_t bytes_per_ms = 0;  // 0: unlimited
  int stalls_per_mille = 0;       // a write waits for a retransmission: 200 ms
  int damaged_per_mille = 0;      // a write has one bit flipped
  bool up = true;                 // down: silently nothing arrives
};

// Confined to the one thread of a simulation. Streams behave like TCP: ordered, bounded, and
// without a word when the path is down, retried with doubling pauses.
class Network final : public Clock {
 public:
  explicit Network(std::uint64_t seed) : random_(seed), far_(seed % 4 == 0) {}

  Nanos now() const override { return now_; }
  void advance(Nanos span) { now_ += span; }

  Path& path(int from, int to, int rail) { return paths_[{from, to, rail}]; }
  void set_up(int a, int b, int rail, bool up);
  // A host's port, of all its paths together, in each direction; 0: unlimited.
  void set_port_rate(int host, std::int64_t bytes_per_ms) {
    wires_[host].bytes_per_ms = bytes_per_ms;
  }

  // -- connections
  // What a host is called on a rail: 10.0.<rail>.<host + 1>.
  static tcp::Address address(int host, int rail, std::uint16_t port);
  // Port 0: one that was never used. kExhausted: another one listens there.
  Result<std::unique_ptr<Listener>> listen(int host, int rail, std::uint16_t port = 0);
  // The rail is that of the address.
  std::unique_ptr<Attempt> connect(int from, const tcp::Address& to);
  // Two ends of a new connection, without waiting.
  std::pair<std::unique_ptr<Stream>, std::unique_ptr<Stream>> pair(int a, int b, int rail);

  // -- faults
  // Ends what connects the two over the rail. Who cannot be reached does not learn it.
  void reset(int a, int b, int rail);
  // What `host` sends on connections to this port of anyone arrives twice now and then, as no TCP
  // would let it: somebody in between does that.
  void repeat(int host, std::uint16_t port, int per_mille) { repeats_[{host, port}] = per_mille; }
  // The host's process dies: its listeners close and its connections end, in order or by a reset.
  // Another process may take its place. `silently`: the host itself is gone, nobody is told.
  void crash(int host, bool silently);

  std::uint64_t bytes_delivered() const { return bytes_delivered_; }
  std::uint64_t damaged_writes() const { return damaged_writes_; }

 private:
  friend class SimStream;
  struct Chunk {
    Nanos arrives = 0;
    std::vector<std::byte> bytes;
    std::size_t read = 0;
  };
  // One direction of a connection.
  struct Pipe {
    int from = 0, to = 0, rail = 0;
    std::uint16_t port = 0;  // that the connection was made to
    std::deque<Chunk> chunks;
    std::size_t bytes = 0;
    Nanos last_arrival = 0;
    Nanos retry_pause = 0;
    bool ended = false;  // by the writer, in order
    bool writer_reset = false;
    bool reader_reset = false;
    // Since when that end is gone; the other one learns it when the path carries the news.
    Nanos reader_gone = INT64_MAX;
    Nanos writer_gone = INT64_MAX;
  };
  using Pipes = std::pair<std::shared_ptr<Pipe>, std::shared_ptr<Pipe>>;
  struct Waiting {
    Pipes pipes;  // from the dialer, to the dialer
    tcp::Address from;
  };
  // A listening port.
  struct Port {
    int host = 0, rail = 0;
    std::uint16_t port = 0;
    std::deque<Waiting> waiting;
  };
  // What a host's wire is busy with.
  struct Wire {
    std::int64_t bytes_per_ms = 0;
    Nanos out_until = 0, in_until = 0;
  };
  using PortKey = std::tuple<int, int, std::uint16_t>;  // host, rail, port
  class SimListener;
  class SimAttempt;

  bool is_up(int from, int to, int rail) { return path(from, to, rail).up; }
  bool knows(const Pipe& pipe, Nanos gone, bool writer);
  IoResult write(Pipe& pipe, std::span<const std::span<const std::byte>> pieces);
  void send(Pipe& pipe, const Path& way, std::vector<std::byte> bytes);
  Nanos pass_wires(int from, int to, std::size_t bytes);
  IoResult read(Pipe& pipe, std::span<std::byte> space);
  void close(Port& port);
  Pipes make_pipes(int a, int b, int rail, std::uint16_t port);
  int below(int bound) { return static_cast<int>(random_() % static_cast<unsigned>(bound)); }

  std::mt19937_64 random_;
  const bool far_;       // whether its connections lead to other hosts
  Nanos now_ = kSecond;  // not 0, which some mean as "never"
  std::map<std::tuple<int, int, int>, Path> paths_;
  std::vector<std::weak_ptr<Pipe>> pipes_;
  std::map<int, Wire> wires_;       // by host
  std::map<PortKey, Port*> ports_;  // those that listen
  std::uint16_t next_port_ = 10'000;
  std::set<int> vanished_;                                // hosts
  std::map<std::pair<int, std::uint16_t>, int> repeats_;  // by host and port
  std::uint64_t bytes_delivered_ = 0;
  std::uint64_t damaged_writes_ = 0;
};

}  // namespace syncline::transport::sim
