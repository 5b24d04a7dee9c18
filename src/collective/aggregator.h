// Aggregator: the part of a process that sums for others and keeps nothing. It runs every
// all-reduce that rank 0 of its group announces (plan/generators.h, make_aggregated()); the workers
// call them in the same order, as always.
//
// An announcement is a message of rank 0 with tag kAnnounceTag. Bytes, little-endian: dtype u8, op
// u8, flags u8 (bit 0: reproducible), zero u8, divisor u32 (0: no average), count u64 (elements),
// name (u32 length, then its bytes).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/buffers.h"
#include "base/mutex.h"
#include "base/result.h"
#include "collective/plan_cache.h"
#include "exec/engine.h"

namespace syncline::collective {

inline constexpr std::int32_t kAnnounceTag = 1;
inline constexpr std::size_t kAnnounceNameMax = 1024;

struct Announcement {
  DType type = DType::kF32;
  ReduceOp op = ReduceOp::kSum;
  bool reproducible = false;
  int divisor = 0;
  std::uint64_t count = 0;
  std::string name;
  bool operator==(const Announcement&) const = default;
};

std::vector<std::byte> encode(const Announcement& announcement);
Result<Announcement> decode_announcement(std::span<const std::byte> bytes);

// What workers and aggregators of a job share: their group, workers first.
struct AggregationGroup {
  std::shared_ptr<exec::Group> group;
  std::shared_ptr<PlanCache> plans;
  int workers = 0;
  int size() const { return static_cast<int>(group->world_ranks.size()); }
};

// States of an announcement's slot: listening -> announced -> listening; in the order of the slots
// the sums of announced ones begin, and listen() goes on. A sum: under way -> ended, its buffer
// kept for the next. Over, for good: a receive failed (rank 0 has left, the group is broken), an
// announcement does not verify, a sum failed or found no memory.
//
// Thread-safe; driven by callbacks of the engine alone, none of which blocks.
class Aggregator : public std::enable_shared_from_this<Aggregator> {
 public:
  // Of sums under way at a time; what is announced beyond it waits. At least one is under way.
  static constexpr std::size_t kBytesMax = 256 << 20;

  Aggregator(std::shared_ptr<exec::Engine> engine, AggregationGroup aggregation,
             std::function<void(const std::string&)> log)
      : engine_(std::move(engine)), aggregation_(std::move(aggregation)), log_(std::move(log)) {}

  // Once; the engine need not run yet.
  void start();

 private:
  static constexpr std::size_t kSlots = 8;
  struct Slot {
    std::vector<std::byte> bytes;
    std::shared_ptr<MessageInfo> info;
    bool done = false;
  };
  void listen(std::size_t slot);
  void on_announced(std::size_t slot, const Status& status);
  // Begins what may begin. One thread at a time does, so that the order is kept.
  void pump();
  bool take_next(Announcement& next, std::size_t& slot) SYNCLINE_REQUIRES(mutex_);
  void begin(const Announcement& announcement);
  Buffer take_buffer(std::size_t bytes);  // null: no memory
  void end_sum(Buffer buffer, std::size_t bytes, const Status& status);

  const std::shared_ptr<exec::Engine> engine_;
  const AggregationGroup aggregation_;
  const std::function<void(const std::string&)> log_;
  Mutex mutex_;
  std::vector<Slot> slots_ SYNCLINE_GUARDED_BY(mutex_) = std::vector<Slot>(kSlots);
  std::size_t head_ SYNCLINE_GUARDED_BY(mutex_) = 0;
  bool over_ SYNCLINE_GUARDED_BY(mutex_) = false;
  bool pumping_ SYNCLINE_GUARDED_BY(mutex_) = false;
  std::size_t under_way_ SYNCLINE_GUARDED_BY(mutex_) = 0;  // bytes
  Buffers buffers_ SYNCLINE_GUARDED_BY(mutex_);
};

}  // namespace syncline::collective
