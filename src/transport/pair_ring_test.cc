#include "transport/pair_ring.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <new>
#include <vector>

namespace syncline::transport {
namespace {

constexpr std::size_t kCapacity = 16384;

struct Ring {
  Ring() : memory(::operator new (ring_bytes(kCapacity), std::align_val_t{64})) {
    std::memset(memory, 0xff, ring_bytes(kCapacity));  // stale bytes must not matter
    init_ring(memory);
  }
  ~Ring() { ::operator delete (memory, std::align_val_t{64}); }
  void* memory;
};

FrameHeader header_of(std::uint64_t op, std::size_t bytes) {
  FrameHeader header;
  header.op = op;
  header.length = static_cast<std::uint32_t>(bytes);
  return header;
}

TEST(PairRing, CarriesEverySizeAroundTheLapEnd) {
  Ring ring;
  RingProducer producer(ring.memory, kCapacity);
  RingConsumer consumer(ring.memory, kCapacity);
  for (std::uint64_t i = 0; i < 5000; ++i) {
    const std::size_t bytes = i * 37 % 6000;  // both lanes
    const std::vector<std::byte> payload(bytes, static_cast<std::byte>(i));
    ASSERT_TRUE(producer.try_push(header_of(i, bytes), payload.data())) << i;
    const Frame* frame = consumer.front();
    ASSERT_NE(frame, nullptr) << i;
    EXPECT_EQ(frame->header.op, i);
    ASSERT_EQ(frame->header.length, bytes);
    EXPECT_TRUE(bytes == 0 || std::memcmp(frame->payload, payload.data(), bytes) == 0);
    consumer.pop();
    ASSERT_EQ(consumer.front(), nullptr) << i;
  }
}

// Payloads large enough to be streamed, long enough for both kinds of stores to have their turn.
TEST(PairRing, CarriesLargePayloadsByEitherKindOfStores) {
  constexpr std::size_t kLarge = 128 << 10;
  std::vector<std::byte> memory(ring_bytes(kLarge) + 64);
  void* aligned = memory.data();
  std::size_t space = memory.size();
  std::align(64, ring_bytes(kLarge), aligned, space);
  init_ring(aligned);
  RingProducer producer(aligned, kLarge);
  RingConsumer consumer(aligned, kLarge);
  const auto* control = static_cast<const RingControl*>(aligned);
  for (std::uint64_t i = 0; i < 1500; ++i) {
    const std::size_t bytes = kTimedBytesMin + i * 37 % 6000;
    std::vector<std::byte> payload(bytes);
    for (std::size_t at = 0; at < bytes; ++at) payload[at] = static_cast<std::byte>(at * 7 + i);
    ASSERT_TRUE(producer.try_push(header_of(i, bytes), payload.data())) << i;
    const Frame* frame = consumer.front();
    ASSERT_NE(frame, nullptr) << i;
    ASSERT_EQ(std::memcmp(frame->payload, payload.data(), bytes), 0) << i;
    consumer.note_read(1000);
    consumer.pop();
  }
  EXPECT_NE(control->read_costs[0].load(), 0u);
  EXPECT_NE(control->read_costs[1].load(), 0u) << "nothing was streamed";
}

// Payload that looks like the next record's stamp at every aligned place.
TEST(PairRing, NeverTakesPayloadForAHeader) {
  Ring ring;
  RingProducer producer(ring.memory, kCapacity);
  RingConsumer consumer(ring.memory, kCapacity);
  std::uint64_t position = 0;
  for (std::uint64_t i = 0; i < 300; ++i) {
    std::vector<std::uint64_t> payload(128);
    for (std::size_t w = 0; w < payload.size(); ++w) {
      payload[w] = position + kSmallCapacity + 64 + w / 8 * 64 + 1;  // stamps of the lap to come
    }
    ASSERT_TRUE(producer.try_push(header_of(i, 1024), payload.data()));
    ASSERT_NE(consumer.front(), nullptr);
    ASSERT_EQ(consumer.front()->header.op, i);
    consumer.pop();
    ASSERT_EQ(consumer.front(), nullptr) << i;
    position += 64 + 1024;
  }
}

TEST(PairRing, KeepsTheOrderAcrossBothLanes) {
  Ring ring;
  RingProducer producer(ring.memory, kCapacity);
  RingConsumer consumer(ring.memory, kCapacity);
  const std::vector<std::byte> payload(4000);
  std::uint64_t pushed = 0;
  std::uint64_t popped = 0;
  while (popped < 4000) {
    const std::size_t bytes = (pushed * 7919) % 13 < 6 ? 100 : 4000;
    if (pushed < popped + 5 && producer.try_push(header_of(pushed, bytes), payload.data())) {
      ++pushed;
      continue;
    }
    ASSERT_NE(consumer.front(), nullptr) << popped;
    ASSERT_EQ(consumer.front()->header.op, popped);
    consumer.pop();
    ++popped;
  }
}

TEST(PairRing, BlocksWhenFullAndGoesOnAfterPop) {
  Ring ring;
  RingProducer producer(ring.memory, kCapacity);
  RingConsumer consumer(ring.memory, kCapacity);
  std::vector<std::byte> payload(2500);  // the long lane
  std::uint64_t pushed = 0;
  while (producer.try_push(header_of(pushed, payload.size()), payload.data())) ++pushed;
  EXPECT_GE(pushed, 5u);
  EXPECT_LT(pushed * payload.size(), kCapacity);
  EXPECT_TRUE(producer.arm(payload.size()));
  ASSERT_NE(consumer.front(), nullptr);
  consumer.pop();
  EXPECT_TRUE(consumer.take_producer_wait());
  EXPECT_FALSE(consumer.take_producer_wait());
  ASSERT_NE(consumer.front(), nullptr);  // the lap's rest is lost to the record that wraps
  consumer.pop();
  EXPECT_TRUE(producer.try_push(header_of(pushed, payload.size()), payload.data()));
}

TEST(PairRing, ArmsOnlyWhenEmptyAndIsTakenOnce) {
  Ring ring;
  RingProducer producer(ring.memory, kCapacity);
  RingConsumer consumer(ring.memory, kCapacity);
  EXPECT_TRUE(consumer.arm());
  ASSERT_TRUE(producer.try_push(header_of(1, 0), nullptr));
  EXPECT_TRUE(producer.take_consumer_wait());
  EXPECT_FALSE(producer.take_consumer_wait());
  EXPECT_FALSE(consumer.arm());
}

TEST(PairRing, RefusesALengthThatCannotBe) {
  Ring ring;
  RingProducer producer(ring.memory, kCapacity);
  RingConsumer consumer(ring.memory, kCapacity);
  ASSERT_TRUE(producer.try_push(header_of(1, 0), nullptr));
  auto* record =
      reinterpret_cast<RecordHeader*>(static_cast<std::byte*>(ring.memory) + kRingRecordsOffset);
  record->length = 0x7fffffff;
  EXPECT_EQ(consumer.front(), nullptr);
  EXPECT_TRUE(consumer.corrupt());
}

}  // namespace
}  // namespace syncline::transport
