// FlightRecorder: notes what a rank does, so that somebody can tell after it hung or died.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/flight_format.h"
#include "base/ticks.h"

namespace syncline::flight {

struct Identity {
  int rank = 0;
  int world_size = 1;
  std::string job;
  std::string host;
};

// The first 16 bytes of a name, padded with zeros.
struct NameWords {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
};
inline NameWords name_words(std::string_view name) {
  const auto load = [](const char* from) {
    std::uint64_t word;
    std::memcpy(&word, from, sizeof word);
    return word;
  };
  if (name.size() >= kNameBytes) return {load(name.data()), load(name.data() + 8)};
  if (name.size() > 8) {
    const std::size_t overlap = kNameBytes - name.size();
    return {load(name.data()), load(name.data() + name.size() - 8) >> (8 * overlap)};
  }
  NameWords words;
  for (std::size_t i = 0; i < name.size(); ++i) {
    words.low |= std::uint64_t{static_cast<unsigned char>(name[i])} << (8 * i);
  }
  return words;
}

// Confined to one writer at a time; an image may be taken by anybody at any moment. No lock, no
// system call, no allocation: a record is eight stores.
class Ring {
 public:
  Ring(std::byte* memory, std::uint32_t records)
      : words_(reinterpret_cast<std::uint64_t*>(memory)), mask_(records - 1) {}

  void write(const Record& record) { write(std::bit_cast<RecordWords>(record)); }
  // The last word is the ring's.
  void write(const RecordWords& words) {
    std::uint64_t* const at = words_ + std::size_t{seq_ & mask_} * words.size();
    // A process that dies between these stores leaves a record that does not check.
    std::atomic_ref(at[words.size() - 1]).store(0, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    for (std::size_t i = 0; i + 1 < words.size(); ++i) {
      std::atomic_ref(at[i]).store(words[i], std::memory_order_relaxed);
    }
    std::atomic_ref(at[words.size() - 1]).store(seal(words, seq_), std::memory_order_release);
    ++seq_;
    // Fetches the line of the next record while the operation works.
    __builtin_prefetch(words_ + std::size_t{seq_ & mask_} * words.size(), 1);
  }

 private:
  std::uint64_t* words_;
  std::uint32_t mask_;
  std::uint32_t seq_ = 0;
};

// What two writers share: the holder of the engine's baton writes everything but enqueued(), which
// is for callers that hold the engine's submission lock. want_dump() is thread-safe.
class FlightRecorder {
 public:
  static constexpr std::uint32_t kRecords =
      2048;  // a thousand operations, a quarter of a small cache
  static constexpr std::uint32_t kCallerRecords = 256;

  // `memory` has image_bytes(records, caller_records) bytes, aligned to 64, and lives as long as
  // the recorder. What it held before is erased.
  FlightRecorder(std::shared_ptr<std::byte> memory, const Identity& identity,
                 std::uint32_t records = kRecords, std::uint32_t caller_records = kCallerRecords);

  // Index of the group's entry, which called(), done() and failed() take.
  std::size_t group_made(std::uint32_t comm, std::uint32_t rank, std::uint32_t size);
  void group_removed(std::size_t group);

  void enqueued(std::uint32_t comm, const FingerprintBytes& what, std::string_view name) {
    callers_.write(call_words(Kind::kEnqueued, comm, 0, ticks_now(), what, name));
  }
  // One store; the record may follow a little later.
  void called(std::size_t group, std::uint64_t op) {
    std::atomic_ref(entry(group).started).store(op, std::memory_order_relaxed);
  }
  // Returns the ticks of the start.
  std::uint64_t started(std::uint32_t comm, std::uint64_t op, const FingerprintBytes& what,
                        std::string_view name) {
    newest_ = ticks_now();
    engine_.write(call_words(Kind::kStarted, comm, op, newest_, what, name));
    return newest_;
  }
  // A reading of the counter costs as much as all else here: operations of one segment, which are
  // the short ones, take the newest that the engine has.
  void done(std::size_t group, std::uint32_t comm, std::uint64_t op, const FingerprintBytes& what,
            std::uint64_t start, bool exact) {
    if (exact) refresh();
    note_ended(group, op);
    const auto fingerprint = std::bit_cast<std::array<std::uint64_t, 2>>(what);
    constexpr std::uint64_t kNoPeer = UINT32_MAX;
    engine_.write({newest_, op, head_word(Kind::kDone, comm), fingerprint[0], fingerprint[1], start,
                   kNoPeer, 0});
  }
  void refresh() { newest_ = ticks_now(); }
  std::uint64_t newest() const { return newest_; }

  // The rare ones read the counter themselves.
  void failed(std::size_t group, std::uint32_t comm, std::uint64_t op, const EndBody& body,
              std::uint8_t code, std::string_view text);
  void progress(Kind kind, std::uint32_t comm, std::uint64_t op, const ProgressBody& body);
  void peer(Kind kind, std::uint32_t comm, std::uint64_t op, const PeerBody& body,
            std::uint8_t code, std::string_view text);
  // The engine's tick: what turns ticks into time, and a sign of life.
  void clock(Nanos now);
  void left();

  // Asks for a dump; whoever owns the recorder takes the wish at the next tick.
  void want_dump(Reason reason) { wanted_.store(reason, std::memory_order_relaxed); }
  Reason take_wish() {
    if (wanted_.load(std::memory_order_relaxed) == Reason::kNone) return Reason::kNone;
    return wanted_.exchange(Reason::kNone, std::memory_order_relaxed);
  }

  // A copy of the memory, with the baton; a record that a caller is writing comes out torn.
  std::vector<std::byte> image() const;

 private:
  static Record make(Kind kind, std::uint32_t comm, std::uint64_t op, std::uint64_t ticks) {
    Record record;
    record.ticks = ticks;
    record.op = op;
    record.kind = kind;
    record.comm = comm;
    return record;
  }
  // The two records of every operation are put together in registers: a struct of small fields that
  // is read back as words costs several times as much (its stores cannot be forwarded).
  static std::uint64_t head_word(Kind kind, std::uint32_t comm) {
    return static_cast<std::uint64_t>(kind) | std::uint64_t{comm} << 32;
  }
  static RecordWords call_words(Kind kind, std::uint32_t comm, std::uint64_t op,
                                std::uint64_t ticks, const FingerprintBytes& what,
                                std::string_view name) {
    const auto fingerprint = std::bit_cast<std::array<std::uint64_t, 2>>(what);
    const NameWords text = name_words(name);
    return {ticks,     op, head_word(kind, comm), fingerprint[0], fingerprint[1], text.low,
            text.high, 0};
  }
  void note_ended(std::size_t group, std::uint64_t op) {
    std::uint64_t& ended = entry(group).ended;
    if (op > ended) std::atomic_ref(ended).store(op, std::memory_order_relaxed);
  }
  Group& entry(std::size_t group) { return group < kGroupsMax ? groups_[group] : spare_group_; }
  void write_with_text(Record record, std::string_view text);

  std::shared_ptr<std::byte> memory_;
  std::size_t bytes_;
  Header* header_;
  Group* groups_;  // of the memory
  Ring engine_;
  Ring callers_;
  Group spare_group_;  // of groups that find no entry
  std::uint64_t newest_ = 0;
  std::atomic<Reason> wanted_{Reason::kNone};
};

}  // namespace syncline::flight
