#include "transport/pair_ring.h"

#include <cstring>
#include <new>

#include "base/assert.h"
#include "base/asymmetric_fence.h"
#include "base/ticks.h"
#include "kernels/stream_copy.h"

namespace syncline::transport {
namespace {

constexpr std::size_t kAlign = 64;
constexpr std::uint8_t kPad = 0;

constexpr std::size_t record_bytes(std::size_t payload) {
  return sizeof(RecordHeader) + (payload + kAlign - 1) / kAlign * kAlign;
}

}  // namespace

void init_ring(void* memory) {
  new (memory) RingControl();
  auto* lanes = static_cast<std::byte*>(memory) + kRingRecordsOffset;
  new (lanes) RecordHeader();
  new (lanes + kSmallCapacity) RecordHeader();
}

RingProducer::RingProducer(void* memory, std::size_t capacity)
    : control_(static_cast<RingControl*>(memory)), choice_(capacity) {
  SYNCLINE_ASSERT((capacity & (capacity - 1)) == 0, "ring capacity is a power of two");
  auto* records = static_cast<std::byte*>(memory) + kRingRecordsOffset;
  lanes_[0] = {&control_->heads[0], records, kSmallCapacity};
  lanes_[1] = {&control_->heads[1], records + kSmallCapacity, capacity};
}

RecordHeader* RingProducer::Lane::header_at(std::uint64_t position) const {
  return reinterpret_cast<RecordHeader*>(records + (position & (capacity - 1)));
}

// Counts the lap's rest when the record would wrap, and the free header behind the record.
bool RingProducer::Lane::has_room(std::size_t bytes) {
  const std::size_t lap_rest = capacity - (tail & (capacity - 1));
  const std::size_t need = (bytes > lap_rest ? lap_rest : 0) + bytes + sizeof(RecordHeader);
  if (tail + need - head_seen <= capacity) return true;
  head_seen = head->position.load(std::memory_order_acquire);
  return tail + need - head_seen <= capacity;
}

// Small frames overflow into the long lane.
RingProducer::Lane* RingProducer::lane_with_room(std::size_t payload_bytes) {
  const std::size_t bytes = record_bytes(payload_bytes);
  if (payload_bytes <= kSmallPayloadMax && lanes_[0].has_room(bytes)) return &lanes_[0];
  return lanes_[1].has_room(bytes) ? &lanes_[1] : nullptr;
}

bool RingProducer::try_push(const FrameHeader& header, const void* payload) {
  const std::size_t bytes = record_bytes(header.length);
  SYNCLINE_ASSERT(bytes + sizeof(RecordHeader) <= lanes_[1].capacity / 2,
                  "frame too large for the ring");
  Lane* chosen = lane_with_room(header.length);
  if (chosen == nullptr) return false;
  Lane& lane = *chosen;

  std::uint64_t position = lane.tail;
  const std::size_t lap_rest = lane.capacity - (lane.tail & (lane.capacity - 1));
  if (bytes > lap_rest) position += lap_rest;
  lane.header_at(position + bytes)->stamp.store(0, std::memory_order_relaxed);

  RecordHeader* record = lane.header_at(position);
  auto* staged = reinterpret_cast<std::byte*>(record) + sizeof(RecordHeader);
  const Stores stores = copy_in(staged, payload, header.length);
  // The header comes last, together with its stamp: the consumer polls this cache line and would
  // take it away in between.
  record->op = header.op;
  record->comm = header.comm;
  record->step = header.step;
  record->segment = header.segment;
  record->length = header.length;
  record->fingerprint = header.fingerprint;
  record->flags = header.flags;
  record->type = static_cast<std::uint8_t>(header.type);
  record->marks = static_cast<std::uint8_t>((header.has_fingerprint ? kHasFingerprint : 0) |
                                            (stores == Stores::kStreaming ? kStreamed : 0));
  record->number = number_++;
  publish(lane, position, bytes);
  if (&lane == &lanes_[0]) prefetch_next(lane, bytes);
  return true;
}

Stores RingProducer::copy_in(std::byte* staged, const void* payload, std::size_t bytes) {
  if (bytes < kTimedBytesMin) {
    if (bytes != 0) std::memcpy(staged, payload, bytes);
    return Stores::kCached;
  }
  const Stores stores = choice_.current();
  const std::uint64_t begin = ticks_now();
  if (stores == Stores::kStreaming) {
    kernels::stream_copy(staged, payload, bytes);
  } else {
    std::memcpy(staged, payload, bytes);
  }
  choice_.wrote(bytes, ticks_now() - begin,
                {control_->read_costs[0].load(std::memory_order_relaxed),
                 control_->read_costs[1].load(std::memory_order_relaxed)});
  return stores;
}

// Takes the cache lines of the next record from the consumer's core before they are needed: the
// same call often comes again.
void RingProducer::prefetch_next(const Lane& lane, std::size_t bytes) const {
  const auto* next = reinterpret_cast<const std::byte*>(lane.header_at(lane.tail));
  const auto* end = lane.records + lane.capacity;
  for (std::size_t at = 0; at <= bytes && next + at < end; at += kAlign) {
    __builtin_prefetch(next + at, 1);
  }
}

// The stamp that the consumer waits for comes last.
void RingProducer::publish(Lane& lane, std::uint64_t position, std::size_t bytes) {
  RecordHeader* first = lane.header_at(position);
  if (position != lane.tail) {
    first->stamp.store(position + 1, std::memory_order_relaxed);
    first = lane.header_at(lane.tail);
    first->type = kPad;
  }
  first->stamp.store(lane.tail + 1, std::memory_order_release);
  lane.tail = position + bytes;
}

bool RingProducer::take_consumer_wait() {
  light_fence();
  if (control_->consumer_waits.load(std::memory_order_relaxed) == 0) return false;
  return control_->consumer_waits.exchange(0, std::memory_order_acq_rel) != 0;
}

bool RingProducer::arm(std::size_t payload_bytes) {
  if (lane_with_room(payload_bytes) != nullptr) return false;
  control_->producer_waits.store(1, std::memory_order_relaxed);
  return true;
}

bool RingProducer::stays_armed(std::size_t payload_bytes) {
  return lane_with_room(payload_bytes) == nullptr;
}

void RingProducer::disarm() { control_->producer_waits.store(0, std::memory_order_relaxed); }

void RingProducer::beat() { control_->heartbeat.fetch_add(1, std::memory_order_relaxed); }

void RingProducer::say_goodbye() { control_->goodbye.store(1, std::memory_order_release); }

bool RingProducer::drained() const {
  for (const Lane& lane : lanes_) {
    if (lane.head->position.load(std::memory_order_acquire) != lane.tail) return false;
  }
  return true;
}

RingConsumer::RingConsumer(void* memory, std::size_t capacity)
    : control_(static_cast<RingControl*>(memory)) {
  const auto* records = static_cast<const std::byte*>(memory) + kRingRecordsOffset;
  lanes_[0] = {&control_->heads[0], records, kSmallCapacity};
  lanes_[1] = {&control_->heads[1], records + kSmallCapacity, capacity};
}

const RecordHeader* RingConsumer::Lane::poll() {
  for (;;) {
    const auto* record =
        reinterpret_cast<const RecordHeader*>(records + (position & (capacity - 1)));
    if (record->stamp.load(std::memory_order_acquire) != position + 1) return nullptr;
    if (record->type != kPad) return record;
    position += capacity - (position & (capacity - 1));
  }
}

// Of two records the one with the next number is older; the other lane's is then there as well,
// since it was published earlier.
bool RingConsumer::poll() {
  if (corrupt_) return false;
  for (std::size_t lane = 0; lane < 2; ++lane) {
    const RecordHeader* record = lanes_[lane].poll();
    if (record == nullptr || record->number != number_) continue;
    front_lane_ = lane;
    return take(lanes_[lane], *record);
  }
  return false;
}

// The peer's process may be broken: the length is copied once, then only the copy is trusted.
bool RingConsumer::take(const Lane& lane, const RecordHeader& record) {
  const std::uint32_t length = record.length;
  const std::size_t lap_rest = lane.capacity - (lane.position & (lane.capacity - 1));
  if (length > lane.capacity || record_bytes(length) > lap_rest) {
    corrupt_ = true;
    return false;
  }
  FrameHeader& header = front_.header;
  header.type = static_cast<FrameType>(record.type);
  header.flags = record.flags;
  header.comm = record.comm;
  header.op = record.op;
  header.step = record.step;
  header.segment = record.segment;
  header.length = length;
  header.fingerprint = record.fingerprint;
  header.has_fingerprint = (record.marks & kHasFingerprint) != 0;
  front_streamed_ = (record.marks & kStreamed) != 0;
  front_.payload = reinterpret_cast<const std::byte*>(&record) + sizeof(RecordHeader);
  has_front_ = true;
  return true;
}

void RingConsumer::note_read(std::uint64_t ticks) {
  SYNCLINE_ASSERT(has_front_, "note_read without front");
  if (front_.header.length < kTimedBytesMin) return;
  const std::size_t stores = front_streamed_ ? 1 : 0;
  read_costs_[stores].note(ticks, front_.header.length);
  control_->read_costs[stores].store(read_costs_[stores].value(), std::memory_order_relaxed);
}

void RingConsumer::pop() {
  SYNCLINE_ASSERT(has_front_, "pop without front");
  has_front_ = false;
  ++number_;
  Lane& lane = lanes_[front_lane_];
  lane.position += record_bytes(front_.header.length);
  lane.head->position.store(lane.position, std::memory_order_release);
}

bool RingConsumer::take_producer_wait() {
  light_fence();
  if (control_->producer_waits.load(std::memory_order_relaxed) == 0) return false;
  return control_->producer_waits.exchange(0, std::memory_order_acq_rel) != 0;
}

bool RingConsumer::arm() {
  if (front() != nullptr) return false;
  control_->consumer_waits.store(1, std::memory_order_relaxed);
  return true;
}

void RingConsumer::disarm() { control_->consumer_waits.store(0, std::memory_order_relaxed); }

std::uint64_t RingConsumer::heartbeat() const {
  return control_->heartbeat.load(std::memory_order_relaxed);
}

bool RingConsumer::finished() { return goodbye_said() && front() == nullptr; }

}  // namespace syncline::transport
