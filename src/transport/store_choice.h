// StoreChoice: how a producer writes large payloads into a ring.
//
// Ordinary stores leave the payload in the producer's caches. While the two cores are near, the
// consumer reads it there; while they are far apart (another socket or chiplet; virtual machines
// move between those while they run), every line costs it a long round trip, and storing past the
// caches (non-temporal) is up to twice as fast: it reads memory. Neither can be known beforehand,
// so both are timed: writing by the producer, reading by the consumer, who leaves its figure in
// the ring.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace syncline::transport {

enum class Stores : std::uint8_t { kCached = 0, kStreaming = 1 };
inline constexpr std::size_t kStoresCount = 2;

// Ticks that 4 KiB cost, smoothed. Whoever was interrupted while it measured counts for little.
// Externally synchronised.
class SmoothedCost {
 public:
  void note(std::uint64_t ticks, std::size_t bytes);
  std::uint32_t value() const { return value_; }  // 0: nothing noted yet

 private:
  std::uint32_t value_ = 0;
};

// Confined to the producer.
//
// States: settled on one kind of stores -> trying the other, for two laps of the ring -> settled.
// The first lap after a change is not timed: the ring's lines still lie where the other kind left
// them.
class StoreChoice {
 public:
  static constexpr std::uint64_t kLapsBetweenTries = 64;
  static constexpr std::uint64_t kLapsOfTry = 2;

  explicit StoreChoice(std::size_t lap_bytes) : lap_bytes_(lap_bytes) {}

  Stores current() const { return current_; }
  bool timed() const { return phase_bytes_ >= lap_bytes_; }
  // After each large payload. `write_ticks`: what copying it in took. `read_costs`: the consumer's,
  // SmoothedCost::value() by kind of stores.
  void wrote(std::size_t bytes, std::uint64_t write_ticks,
             const std::array<std::uint32_t, kStoresCount>& read_costs);

 private:
  std::uint64_t cost(Stores stores) const;

  std::size_t lap_bytes_;
  Stores settled_ = Stores::kCached;
  Stores current_ = Stores::kCached;
  std::uint64_t phase_bytes_ = 0;  // written since current_ last changed
  std::array<SmoothedCost, kStoresCount> write_costs_;
  std::array<std::uint32_t, kStoresCount> read_costs_{};
};

}  // namespace syncline::transport
