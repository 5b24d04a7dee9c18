#include "base/flight_recorder.h"

#include <unistd.h>

namespace syncline::flight {
namespace {

constexpr std::size_t kTextMax = 16 * kTextBytes;

template <std::size_t N>
void copy_name(char (&to)[N], const std::string& from) {
  std::memcpy(to, from.data(), std::min(from.size(), N));
}

}  // namespace

FlightRecorder::FlightRecorder(std::shared_ptr<std::byte> memory, const Identity& identity,
                               std::uint32_t records, std::uint32_t caller_records)
    : memory_(std::move(memory)),
      bytes_(image_bytes(records, caller_records)),
      header_(reinterpret_cast<Header*>(memory_.get())),
      groups_(header_->groups.data()),
      engine_(memory_.get() + kHeaderBytes, records),
      callers_(memory_.get() + kHeaderBytes + std::size_t{records} * kRecordBytes, caller_records) {
  std::memset(memory_.get(), 0, bytes_);
  Header header;
  header.records = {records, caller_records};
  header.rank = identity.rank;
  header.world_size = identity.world_size;
  header.pid = static_cast<std::uint32_t>(::getpid());
  header.counter = kTickCounter;
  newest_ = ticks_now();
  header.start = {newest_, static_cast<std::uint64_t>(monotonic_now())};
  header.start_wall = static_cast<std::uint64_t>(wall_now());
  copy_name(header.job, identity.job);
  copy_name(header.host, identity.host);
  header.header_check = header_check(header);
  header.state = State::kInJob;
  header.clocks = {header.start, header.start};
  std::memcpy(header_, &header, sizeof header);
  std::atomic_ref(*reinterpret_cast<std::uint64_t*>(header_->magic))
      .store(std::bit_cast<std::uint64_t>(kMagic), std::memory_order_release);
}

std::size_t FlightRecorder::group_made(std::uint32_t comm, std::uint32_t rank, std::uint32_t size) {
  std::size_t index = kGroupsMax;  // the first that is new, else the first that is free again
  for (const GroupState wanted : {GroupState::kUnused, GroupState::kRemoved}) {
    for (std::size_t i = 0; i < kGroupsMax && index == kGroupsMax; ++i) {
      if (groups_[i].state == wanted) index = i;
    }
  }
  Group& group = entry(index);
  group = {comm, GroupState::kThere, rank, size, 0, 0};
  Record record = make(Kind::kGroupMade, comm, 0, ticks_now());
  record.body = to_bytes(GroupBody{rank, size, {}});
  engine_.write(record);
  return index;
}

void FlightRecorder::group_removed(std::size_t index) {
  Group& group = entry(index);
  group.state = GroupState::kRemoved;
  Record record = make(Kind::kGroupRemoved, group.id, 0, ticks_now());
  record.body = to_bytes(GroupBody{group.rank, group.size, {}});
  engine_.write(record);
}

void FlightRecorder::failed(std::size_t group, std::uint32_t comm, std::uint64_t op,
                            const EndBody& body, std::uint8_t code, std::string_view text) {
  refresh();
  note_ended(group, op);
  Record record = make(Kind::kFailed, comm, op, newest_);
  record.code = code;
  record.body = to_bytes(body);
  write_with_text(record, text);
}

void FlightRecorder::progress(Kind kind, std::uint32_t comm, std::uint64_t op,
                              const ProgressBody& body) {
  Record record = make(kind, comm, op, ticks_now());
  record.body = to_bytes(body);
  engine_.write(record);
}

void FlightRecorder::peer(Kind kind, std::uint32_t comm, std::uint64_t op, const PeerBody& body,
                          std::uint8_t code, std::string_view text) {
  Record record = make(kind, comm, op, ticks_now());
  record.code = code;
  record.body = to_bytes(body);
  write_with_text(record, text);
}

void FlightRecorder::write_with_text(Record record, std::string_view text) {
  engine_.write(record);
  text = text.substr(0, kTextMax);
  record.kind = Kind::kText;
  record.code = 0;
  for (record.extra = 0; !text.empty(); ++record.extra) {
    const std::string_view piece = text.substr(0, kTextBytes);
    record.body = {};
    std::memcpy(record.body.data(), piece.data(), piece.size());
    engine_.write(record);
    text.remove_prefix(piece.size());
  }
}

void FlightRecorder::clock(Nanos now) {
  refresh();
  const std::uint32_t next = 1 - header_->newest;
  ClockPair& pair = header_->clocks[next];
  std::atomic_ref(pair.ticks).store(newest_, std::memory_order_relaxed);
  std::atomic_ref(pair.mono).store(static_cast<std::uint64_t>(now), std::memory_order_relaxed);
  std::atomic_ref(header_->newest).store(next, std::memory_order_release);
}

void FlightRecorder::left() {
  engine_.write(make(Kind::kLeft, 0, 0, ticks_now()));
  std::atomic_ref(header_->state).store(State::kLeft, std::memory_order_release);
}

std::vector<std::byte> FlightRecorder::image() const {
  std::vector<std::byte> copy(bytes_);
  auto* from = reinterpret_cast<std::uint64_t*>(memory_.get());
  for (std::size_t i = 0; i < bytes_ / sizeof *from; ++i) {
    const std::uint64_t word = std::atomic_ref(from[i]).load(std::memory_order_acquire);
    std::memcpy(copy.data() + i * sizeof word, &word, sizeof word);
  }
  return copy;
}

}  // namespace syncline::flight
