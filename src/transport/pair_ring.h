// Pair ring: a single-producer, single-consumer queue of frames in memory that both sides map (heap
// for inproc, a memfd for shm).
//
// Layout of the mapped memory, all offsets multiples of 64:
//   0    RingControl
//   512  `capacity` bytes of records, a power of two
// A record is a 64-byte RecordHeader followed by the payload, padded to 64. Positions count bytes
// for ever; position p lies at p mod capacity. A record never wraps: where it would, a kPad record
// fills the rest of the lap.
//
// Publication. The consumer polls only the header at its position: record p is there when
// header.stamp
// == p + 1. Before the producer publishes a record it zeroes the stamp of the header behind it, so
// stale payload can never pass for a header; 64 bytes beyond the newest record therefore stay free.
//
// Sleeping (Dekker): a side sets its waits flag, fences, and looks again before it sleeps; the
// other side publishes, fences, and looks at the flag. Whoever sees the flag clears it and rings.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "transport/endpoint.h"

namespace syncline::transport {

struct RingControl {
  alignas(64) std::atomic<std::uint64_t> head{0};  // consumer: everything below is free again
  alignas(64) std::atomic<std::uint32_t> consumer_waits{0};
  alignas(64) std::atomic<std::uint32_t> producer_waits{0};
  alignas(64) std::atomic<std::uint64_t> heartbeat{0};  // producer's process: grows every 100 ms
  alignas(64) std::atomic<std::uint32_t> goodbye{0};    // producer: no record follows
};

struct alignas(64) RecordHeader {
  std::atomic<std::uint64_t> stamp{0};
  std::uint64_t op = 0;
  std::uint32_t comm = 0;
  std::uint32_t step = 0;
  std::uint32_t segment = 0;
  std::uint32_t length = 0;
  Fingerprint fingerprint{};
  std::uint16_t flags = 0;
  std::uint8_t type = 0;  // FrameType; 0 = pad
  std::uint8_t has_fingerprint = 0;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(RecordHeader) == 64);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

inline constexpr std::size_t kRingRecordsOffset = 512;
static_assert(sizeof(RingControl) <= kRingRecordsOffset);

constexpr std::size_t ring_bytes(std::size_t capacity) { return kRingRecordsOffset + capacity; }

// Prepares zeroed memory of ring_bytes(capacity).
void init_ring(void* memory);

// Externally synchronised: one producer thread at a time.
class RingProducer {
 public:
  RingProducer(void* memory, std::size_t capacity);

  // False if there is no room now. The payload is copied.
  bool try_push(const FrameHeader& header, const void* payload);
  // True if the consumer sleeps and asked to be woken; clears the request. Ask after every push.
  bool take_consumer_wait();
  // Asks for a wake-up when room appears; false if there is room for `payload_bytes` already.
  bool arm(std::size_t payload_bytes);
  void disarm();
  void beat();
  void say_goodbye();
  // All records have been consumed.
  bool drained() const;

 private:
  bool has_room(std::size_t bytes);
  RecordHeader* header_at(std::uint64_t position) const;

  RingControl* control_;
  std::byte* records_;
  std::size_t capacity_;
  std::uint64_t tail_ = 0;
  std::uint64_t head_seen_ = 0;
};

// Externally synchronised: one consumer thread at a time.
class RingConsumer {
 public:
  RingConsumer(void* memory, std::size_t capacity);

  // The oldest record or nullptr. Lengths and types are checked: a record that cannot be right sets
  // corrupt() and nothing more is read.
  const Frame* front() {
    if (has_front_) return &front_;
    return poll() ? &front_ : nullptr;
  }
  void pop();
  // True if the producer waits for room; clears the request. Ask after pop().
  bool take_producer_wait();
  // Asks for a wake-up at the next record; false if one is there already.
  bool arm();
  void disarm();
  std::uint64_t heartbeat() const;
  // The producer said goodbye and every record was read.
  bool finished();
  bool corrupt() const { return corrupt_; }

 private:
  bool poll();
  RecordHeader* header_at(std::uint64_t position) const;

  RingControl* control_;
  std::byte* records_;
  std::size_t capacity_;
  std::uint64_t head_ = 0;
  std::uint64_t head_published_ = 0;
  bool has_front_ = false;
  bool corrupt_ = false;
  Frame front_;
};

}  // namespace syncline::transport
