// Proxy: a TCP proxy between two ranks that damages, repeats, delays and cuts what passes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

#include "event/thread.h"
#include "transport/tcp/socket.h"

namespace syncline::harness {

// Thread-safe. One thread; listens on a loopback port and connects on to `target`. The faults hold
// for the frames of both directions unless said otherwise; the handshake at the beginning of a
// connection passes unharmed.
class Proxy {
 public:
  explicit Proxy(transport::tcp::Address target, std::uint64_t seed = 1);
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  transport::tcp::Address address() const { return address_; }

  // One bit in about so many bytes is flipped; 0: none.
  std::atomic<std::uint64_t> flip_every{0};
  // Every so many frames from the dialling side one is sent twice, or once more later; 0: never.
  std::atomic<std::uint64_t> repeat_every{0};
  // Every so many frames from there that only acknowledge get lost; 0: none.
  std::atomic<std::uint64_t> drop_acks_every{0};
  // Bytes wait so long.
  std::atomic<int> delay_us{0};
  // Nothing passes, connections stay: half-open. New ones are accepted and go nowhere.
  std::atomic<bool> hold{false};
  // Resets all connections.
  void cut() { cuts_wanted_.fetch_add(1); }

  std::uint64_t flips() const { return flips_.load(); }
  std::uint64_t repeats() const { return repeats_.load(); }
  std::uint64_t acks_dropped() const { return acks_dropped_.load(); }
  std::uint64_t connections() const { return connections_.load(); }

 private:
  struct Flow {                      // one direction
    std::vector<std::byte> waiting;  // read, not written
    std::uint64_t passed = 0;        // bytes read
    std::uint64_t next_flip = 0;
    std::vector<std::byte> frame;  // of the dialling side: what came of the current frame
    std::uint64_t frames = 0, acks = 0;
    std::vector<std::byte> late;  // a copy that comes again
    std::uint64_t late_at = 0;
  };
  struct Connection {
    transport::tcp::Fd dialer, listener;
    Flow there, back;
  };

  void loop();
  void accept();
  bool pump(Connection& connection);
  bool read(int from, Flow& flow, bool dialling);
  static bool write(int to, Flow& flow);
  void damage(Flow& flow, std::size_t begin);
  void by_frames(Flow& flow, const std::byte* bytes, std::size_t count);
  static void reset(Connection& connection);

  const transport::tcp::Address target_;
  transport::tcp::Fd listener_;
  transport::tcp::Address address_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Connection>> connections_open_;
  std::atomic<std::uint64_t> flips_{0};
  std::atomic<std::uint64_t> repeats_{0};
  std::atomic<std::uint64_t> acks_dropped_{0};
  std::atomic<std::uint64_t> connections_{0};
  std::atomic<int> cuts_wanted_{0};
  int cuts_done_ = 0;
  std::atomic<bool> stop_{false};
  event::NamedThread thread_;
};

}  // namespace syncline::harness
