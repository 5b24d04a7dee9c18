#include "transport/pair_ring.h"

#include <cstring>
#include <new>

#include "base/assert.h"

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
  new (static_cast<std::byte*>(memory) + kRingRecordsOffset) RecordHeader();
}

RingProducer::RingProducer(void* memory, std::size_t capacity)
    : control_(static_cast<RingControl*>(memory)),
      records_(static_cast<std::byte*>(memory) + kRingRecordsOffset),
      capacity_(capacity) {
  SYNCLINE_ASSERT((capacity & (capacity - 1)) == 0, "ring capacity is a power of two");
}

RecordHeader* RingProducer::header_at(std::uint64_t position) const {
  return reinterpret_cast<RecordHeader*>(records_ + (position & (capacity_ - 1)));
}

// Counts the lap's rest when the record would wrap, and the free header behind the record.
bool RingProducer::has_room(std::size_t bytes) {
  const std::size_t lap_rest = capacity_ - (tail_ & (capacity_ - 1));
  const std::size_t need = (bytes > lap_rest ? lap_rest : 0) + bytes + sizeof(RecordHeader);
  if (tail_ + need - head_seen_ <= capacity_) return true;
  head_seen_ = control_->head.load(std::memory_order_seq_cst);
  return tail_ + need - head_seen_ <= capacity_;
}

bool RingProducer::try_push(const FrameHeader& header, const void* payload) {
  const std::size_t bytes = record_bytes(header.length);
  SYNCLINE_ASSERT(bytes + sizeof(RecordHeader) <= capacity_ / 2, "frame too large for the ring");
  if (!has_room(bytes)) return false;

  std::uint64_t position = tail_;
  const std::size_t lap_rest = capacity_ - (tail_ & (capacity_ - 1));
  if (bytes > lap_rest) position += lap_rest;
  header_at(position + bytes)->stamp.store(0, std::memory_order_relaxed);

  RecordHeader* record = header_at(position);
  record->op = header.op;
  record->comm = header.comm;
  record->step = header.step;
  record->segment = header.segment;
  record->length = header.length;
  record->fingerprint = header.fingerprint;
  record->flags = header.flags;
  record->type = static_cast<std::uint8_t>(header.type);
  record->has_fingerprint = header.has_fingerprint ? 1 : 0;
  auto* staged = reinterpret_cast<std::byte*>(record) + sizeof(RecordHeader);
  if (header.length != 0) std::memcpy(staged, payload, header.length);
  if (position != tail_) {
    record->stamp.store(position + 1, std::memory_order_relaxed);
    RecordHeader* pad = header_at(tail_);
    pad->type = kPad;
    pad->length = static_cast<std::uint32_t>(lap_rest - sizeof(RecordHeader));
    record = pad;
  }
  record->stamp.store(tail_ + 1, std::memory_order_seq_cst);
  tail_ = position + bytes;
  return true;
}

bool RingProducer::take_consumer_wait() {
  if (control_->consumer_waits.load(std::memory_order_seq_cst) == 0) return false;
  return control_->consumer_waits.exchange(0, std::memory_order_acq_rel) != 0;
}

bool RingProducer::arm(std::size_t payload_bytes) {
  if (has_room(record_bytes(payload_bytes))) return false;
  control_->producer_waits.store(1, std::memory_order_seq_cst);
  if (!has_room(record_bytes(payload_bytes))) return true;
  disarm();
  return false;
}

void RingProducer::disarm() { control_->producer_waits.store(0, std::memory_order_relaxed); }

void RingProducer::beat() { control_->heartbeat.fetch_add(1, std::memory_order_relaxed); }

void RingProducer::say_goodbye() { control_->goodbye.store(1, std::memory_order_release); }

bool RingProducer::drained() const {
  return control_->head.load(std::memory_order_acquire) == tail_;
}

RingConsumer::RingConsumer(void* memory, std::size_t capacity)
    : control_(static_cast<RingControl*>(memory)),
      records_(static_cast<std::byte*>(memory) + kRingRecordsOffset),
      capacity_(capacity) {}

RecordHeader* RingConsumer::header_at(std::uint64_t position) const {
  return reinterpret_cast<RecordHeader*>(records_ + (position & (capacity_ - 1)));
}

bool RingConsumer::poll() {
  if (corrupt_) return false;
  const RecordHeader* record = header_at(head_);
  if (record->stamp.load(std::memory_order_seq_cst) != head_ + 1) return false;
  const std::size_t lap_rest = capacity_ - (head_ & (capacity_ - 1));
  if (record->type == kPad) {
    head_ += lap_rest;
    return poll();
  }
  // The peer's process may be broken: copy the length once, then trust only the copy.
  const std::uint32_t length = record->length;
  if (length > capacity_ || record_bytes(length) > lap_rest) {
    corrupt_ = true;
    return false;
  }
  FrameHeader& header = front_.header;
  header.type = static_cast<FrameType>(record->type);
  header.flags = record->flags;
  header.comm = record->comm;
  header.op = record->op;
  header.step = record->step;
  header.segment = record->segment;
  header.length = length;
  header.fingerprint = record->fingerprint;
  header.has_fingerprint = record->has_fingerprint != 0;
  front_.payload = reinterpret_cast<const std::byte*>(record + 1);
  has_front_ = true;
  return true;
}

void RingConsumer::pop() {
  SYNCLINE_ASSERT(has_front_, "pop without front");
  has_front_ = false;
  head_ += record_bytes(front_.header.length);
  control_->head.store(head_, std::memory_order_seq_cst);
}

bool RingConsumer::take_producer_wait() {
  if (control_->producer_waits.load(std::memory_order_seq_cst) == 0) return false;
  return control_->producer_waits.exchange(0, std::memory_order_acq_rel) != 0;
}

bool RingConsumer::arm() {
  if (front() != nullptr) return false;
  control_->consumer_waits.store(1, std::memory_order_seq_cst);
  if (front() == nullptr) return true;
  disarm();
  return false;
}

void RingConsumer::disarm() { control_->consumer_waits.store(0, std::memory_order_relaxed); }

std::uint64_t RingConsumer::heartbeat() const {
  return control_->heartbeat.load(std::memory_order_relaxed);
}

bool RingConsumer::finished() {
  return control_->goodbye.load(std::memory_order_acquire) != 0 && front() == nullptr;
}

}  // namespace syncline::transport
