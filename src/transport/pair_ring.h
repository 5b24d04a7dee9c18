// Pair ring: a single-producer, single-consumer queue of frames in memory that both sides map (heap
// for inproc, a memfd for shm).
//
// Two lanes of records make one queue: frames up to kSmallPayloadMax go through a lane so short
// that its cache lines stay in both cores' caches (a 1 MiB lane doubles the time of a 1 KiB
// all_reduce), larger ones, and small ones for which the short lane has no room, through a long
// lane. Records carry their number in the queue, and the consumer takes them in that order.
//
// Layout of the mapped memory, all offsets multiples of 64:
//   0                    RingControl
//   kRingRecordsOffset   short lane, kSmallCapacity bytes
//   then                 long lane, `capacity` bytes, a power of two
// A record is a 64-byte RecordHeader followed by the payload, padded to 64. Positions of a lane
// count bytes for ever; position p lies at p mod the lane's capacity. A record never wraps: where
// it would, a kPad record fills the rest of the lap.
//
// Publication. The consumer polls only the header at its position: record p is there when
// header.stamp == p + 1. Before the producer publishes a record it zeroes the stamp of the header
// behind it, so stale payload can never pass for a header; 64 bytes beyond the newest record
// therefore stay free.
//
// Sleeping (Dekker): a side sets its waits flag (arm()), its thread calls heavy_fence(), once for
// all rings, and looks again before it sleeps (stays_armed());
// the other side publishes, light_fence()s, and looks at the flag. Whoever sees the flag clears it
// and rings. Where one side may not use membarrier(2) and the other does, a ring can be missed: all
// sleeps of the executor are therefore bounded.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "transport/endpoint.h"
#include "transport/store_choice.h"

namespace syncline::transport {

inline constexpr std::size_t kSmallCapacity = 16 << 10;
inline constexpr std::size_t kSmallPayloadMax = 2 << 10;

struct RingControl {
  // Consumer: everything below is free again, by lane (short, long).
  struct alignas(64) Head {
    std::atomic<std::uint64_t> position{0};
  };
  Head heads[2];
  alignas(64) std::atomic<std::uint32_t> consumer_waits{0};
  alignas(64) std::atomic<std::uint32_t> producer_waits{0};
  alignas(64) std::atomic<std::uint64_t> heartbeat{0};  // producer's process: grows every 100 ms
  alignas(64) std::atomic<std::uint32_t> goodbye{0};    // producer: no record follows
  // Consumer: SmoothedCost of reading, by Stores.
  alignas(64) std::array<std::atomic<std::uint32_t>, kStoresCount> read_costs{};
};

// RecordHeader::marks
inline constexpr std::uint8_t kHasFingerprint = 1;
inline constexpr std::uint8_t kStreamed = 2;  // the payload was written by streaming stores

struct alignas(64) RecordHeader {
  std::atomic<std::uint64_t> stamp{0};
  std::uint64_t op = 0;
  std::uint32_t comm = 0;
  std::uint32_t step = 0;
  std::uint32_t segment = 0;
  std::uint32_t length = 0;
  Fingerprint fingerprint{};
  std::uint16_t flags = 0;
  std::uint8_t type = 0;     // FrameType; 0 = pad
  std::uint8_t marks = 0;    // kHasFingerprint, kStreamed
  std::uint32_t number = 0;  // in the queue, modulo 2^32
};
static_assert(sizeof(RecordHeader) == 64);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

inline constexpr std::size_t kRingRecordsOffset = 512;
static_assert(sizeof(RingControl) <= kRingRecordsOffset);

constexpr std::size_t ring_bytes(std::size_t capacity) {
  return kRingRecordsOffset + kSmallCapacity + capacity;
}

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
  // Asks for a wake-up when room appears; false if there is room for `payload_bytes` already. Then
  // the caller's heavy_fence(), and stays_armed(): false if room has appeared meanwhile.
  bool arm(std::size_t payload_bytes);
  bool stays_armed(std::size_t payload_bytes);
  void disarm();
  void beat();
  void say_goodbye();
  // All records have been consumed.
  bool drained() const;

 private:
  struct Lane {
    RingControl::Head* head = nullptr;
    std::byte* records = nullptr;
    std::size_t capacity = 0;
    std::uint64_t tail = 0;
    std::uint64_t head_seen = 0;

    RecordHeader* header_at(std::uint64_t position) const;
    bool has_room(std::size_t bytes);
  };
  Lane* lane_with_room(std::size_t payload_bytes);
  Stores copy_in(std::byte* staged, const void* payload, std::size_t bytes);
  void prefetch_next(const Lane& lane, std::size_t bytes) const;
  static void publish(Lane& lane, std::uint64_t position, std::size_t bytes);

  RingControl* control_;
  Lane lanes_[2];
  std::uint32_t number_ = 0;
  StoreChoice choice_;
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
  // How long reading the front's large payload took (base/ticks.h).
  void note_read(std::uint64_t ticks);
  void pop();
  // True if the producer waits for room; clears the request. Ask after pop().
  bool take_producer_wait();
  // Asks for a wake-up at the next record; false if one is there already. Then the caller's
  // heavy_fence(), and stays_armed(): false if one has come meanwhile.
  bool arm();
  bool stays_armed() { return front() == nullptr; }
  void disarm();
  std::uint64_t heartbeat() const;
  // The producer said goodbye: its process may end although records are still unread.
  bool goodbye_said() const { return control_->goodbye.load(std::memory_order_acquire) != 0; }
  // The producer said goodbye and every record was read.
  bool finished();
  bool corrupt() const { return corrupt_; }

 private:
  struct Lane {
    RingControl::Head* head = nullptr;
    const std::byte* records = nullptr;
    std::size_t capacity = 0;
    std::uint64_t position = 0;

    // The record at the position, or nullptr; steps over pads.
    const RecordHeader* poll();
  };
  bool poll();
  bool take(const Lane& lane, const RecordHeader& record);

  RingControl* control_;
  Lane lanes_[2];
  std::uint32_t number_ = 0;  // of the record to read next
  std::size_t front_lane_ = 0;
  bool has_front_ = false;
  bool front_streamed_ = false;
  bool corrupt_ = false;
  std::array<SmoothedCost, kStoresCount> read_costs_;
  Frame front_;
};

}  // namespace syncline::transport
