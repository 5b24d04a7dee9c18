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
#include <string>
#include <tuple>
#include <vector>

#include "base/clock.h"
#include "transport/stream.h"

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
  explicit Network(std::uint64_t seed) : random_(seed) {}

  Nanos now() const override { return now_; }
  void advance(Nanos span) { now_ += span; }

  Path& path(int from, int to, int rail) { return paths_[{from, to, rail}]; }
  void set_up(int a, int b, int rail, bool up);

  // -- connections
  enum class Answer : std::uint8_t { kPending, kConnected, kRefused };
  class Attempt {
   public:
    virtual ~Attempt() = default;
    virtual Answer answer() = 0;
    virtual std::unique_ptr<Stream> take() = 0;  // once, when connected
  };
  std::unique_ptr<Attempt> connect(int from, int to, int rail);
  struct Accepted {
    int from = -1;
    std::unique_ptr<Stream> stream;
  };
  // The next connection that reached `host`; null stream: none.
  Accepted accept(int host);
  // Two ends of a new connection, without waiting.
  std::pair<std::unique_ptr<Stream>, std::unique_ptr<Stream>> pair(int a, int b, int rail);

  // -- faults
  // Ends what connects the two over the rail. Who cannot be reached does not learn it.
  void reset(int a, int b, int rail);
  // The host's process dies: its connections are reset, new ones refused. `silently`: the host
  // itself is gone, nobody is told.
  void crash(int host, bool silently);
  // Another process serves the host's address.
  void revive(int host) { dead_.erase(host); }

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
    std::deque<Chunk> chunks;
    std::size_t bytes = 0;
    Nanos last_arrival = 0;
    Nanos retry_pause = 0;
    bool ended = false;  // by the writer, in order
    bool writer_reset = false;
    bool reader_reset = false;
  };
  struct Pending {
    Nanos arrives = 0;
    int from = 0, to = 0, rail = 0;
    std::shared_ptr<Pipe> there, back;
    std::shared_ptr<Answer> answer;
  };
  class SimAttempt;

  bool is_up(int from, int to, int rail) { return path(from, to, rail).up; }
  IoResult write(Pipe& pipe, std::span<const std::span<const std::byte>> pieces);
  IoResult read(Pipe& pipe, std::span<std::byte> space);
  void settle(Pending& pending);
  std::pair<std::shared_ptr<Pipe>, std::shared_ptr<Pipe>> make_pipes(int a, int b, int rail);
  int below(int bound) { return static_cast<int>(random_() % static_cast<unsigned>(bound)); }

  std::mt19937_64 random_;
  Nanos now_ = kSecond;  // not 0, which some mean as "never"
  std::map<std::tuple<int, int, int>, Path> paths_;
  std::vector<std::weak_ptr<Pipe>> pipes_;
  std::vector<std::shared_ptr<Pending>> pending_;
  std::map<int, bool> dead_;  // host, silently
  std::uint64_t bytes_delivered_ = 0;
  std::uint64_t damaged_writes_ = 0;
};

}  // namespace syncline::transport::sim
