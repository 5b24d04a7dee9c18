#include "base/flight_recorder.h"

#include <gtest/gtest.h>

#include "base/flight_memory.h"

namespace syncline::flight {
namespace {

constexpr std::uint32_t kSmall = 16;

struct Recording {
  std::shared_ptr<std::byte> memory = private_memory(image_bytes(kSmall, kSmall)).value().bytes;
  FlightRecorder recorder{memory, {2, 4, "job-1", "host-a"}, kSmall, kSmall};

  Header header() const {
    Header header;
    std::memcpy(&header, memory.get(), sizeof header);
    return header;
  }
  RecordWords words(std::size_t index) const {
    RecordWords words;
    std::memcpy(words.data(), memory.get() + kHeaderBytes + index * kRecordBytes, sizeof words);
    return words;
  }
  Record record(std::size_t index) const { return std::bit_cast<Record>(words(index)); }
  bool whole(std::size_t index) const {
    return seal(words(index), record(index).seq) == words(index).back();
  }
};

TEST(FlightRecorder, WritesTheHeader) {
  const Recording recording;
  const Header header = recording.header();
  EXPECT_EQ(std::memcmp(header.magic, "SLFLIGHT", 8), 0);
  EXPECT_EQ(header.rank, 2);
  EXPECT_EQ(header.world_size, 4);
  EXPECT_STREQ(header.job, "job-1");
  EXPECT_STREQ(header.host, "host-a");
  EXPECT_EQ(header.header_check, header_check(header));
  EXPECT_EQ(header.state, State::kInJob);
  EXPECT_EQ(header.dump.reason, Reason::kNone);
}

TEST(FlightRecorder, NotesAnOperation) {
  Recording recording;
  FlightRecorder& recorder = recording.recorder;
  const std::size_t group = recorder.group_made(7, 1, 3);
  FingerprintBytes what{};
  what[0] = std::byte{5};
  recorder.called(group, 42);
  const std::uint64_t start = recorder.started(7, 42, what, "a name longer than 16 bytes");
  recorder.done(group, 7, 42, what, start, true);
  const Record begin = recording.record(1);
  EXPECT_EQ(begin.kind, Kind::kStarted);
  EXPECT_EQ(begin.op, 42u);
  EXPECT_EQ(begin.comm, 7u);
  EXPECT_EQ(begin.ticks, start);
  const auto call = from_bytes<CallBody>(begin.body);
  EXPECT_EQ(call.fingerprint, what);
  EXPECT_EQ(std::string(call.name.data(), call.name.size()), "a name longer th");
  const Record end = recording.record(2);
  EXPECT_EQ(end.kind, Kind::kDone);
  EXPECT_GT(end.ticks, start);
  EXPECT_EQ(from_bytes<EndBody>(end.body).start, start);
  const Group entry = recording.header().groups[group];
  EXPECT_EQ(entry.id, 7u);
  EXPECT_EQ(entry.rank, 1u);
  EXPECT_EQ(entry.size, 3u);
  EXPECT_EQ(entry.started, 42u);
  EXPECT_EQ(entry.ended, 42u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(recording.whole(i)) << i;
}

TEST(FlightRecorder, CutsAndPadsNames) {
  const std::string whole = "abcdefghijklmnopqrst";
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    const NameWords words = name_words(whole.substr(0, size));
    char expected[kNameBytes] = {};
    std::memcpy(expected, whole.data(), std::min(size, kNameBytes));
    EXPECT_EQ(std::memcmp(&words, expected, sizeof expected), 0) << size;
  }
}

TEST(FlightRecorder, OverwritesTheOldest) {
  Recording recording;
  recording.recorder.group_made(1, 0, 2);
  for (std::uint64_t op = 1; op <= 40; ++op) recording.recorder.started(1, op, {}, "");
  // 41 records: numbers 25 to 40 are left, number n at n modulo 16.
  for (std::uint32_t seq = 25; seq <= 40; ++seq) {
    EXPECT_EQ(recording.record(seq % kSmall).seq, seq);
    EXPECT_EQ(recording.record(seq % kSmall).op, seq);
    EXPECT_TRUE(recording.whole(seq % kSmall));
  }
}

TEST(FlightRecorder, EveryFlippedBitOfARecordShows) {
  Recording recording;
  recording.recorder.started(1, 9, {}, "name");
  const std::size_t at = kHeaderBytes;
  for (std::size_t bit = 0; bit < kRecordBytes * 8; ++bit) {
    std::byte& byte = recording.memory.get()[at + bit / 8];
    byte ^= std::byte{1} << (bit % 8);
    EXPECT_FALSE(recording.whole(0)) << "bit " << bit;
    byte ^= std::byte{1} << (bit % 8);
  }
  EXPECT_TRUE(recording.whole(0));
}

TEST(FlightRecorder, KeepsTheTextOfAFailure) {
  Recording recording;
  const std::string text = "rank 3 was silent for 10 s, which is more than a piece of text holds";
  recording.recorder.failed(0, 1, 5, {{}, 1, 3, 0}, 7, text);
  EXPECT_EQ(recording.record(0).kind, Kind::kFailed);
  EXPECT_EQ(recording.record(0).code, 7);
  EXPECT_EQ(from_bytes<EndBody>(recording.record(0).body).peer, 3);
  std::string found;
  for (std::size_t i = 1; i <= 3; ++i) {
    EXPECT_EQ(recording.record(i).kind, Kind::kText);
    EXPECT_EQ(recording.record(i).extra, i - 1);
    const auto body = recording.record(i).body;
    found += std::string(reinterpret_cast<const char*>(body.data()),
                         ::strnlen(reinterpret_cast<const char*>(body.data()), body.size()));
  }
  EXPECT_EQ(found, text);
}

TEST(FlightRecorder, UsesEntriesOfRemovedGroupsWhenAllWereUsed) {
  Recording recording;
  for (std::uint32_t id = 1; id <= kGroupsMax; ++id) {
    EXPECT_EQ(recording.recorder.group_made(id, 0, 2), id - 1);
  }
  const std::size_t none = recording.recorder.group_made(100, 0, 2);
  recording.recorder.called(none, 1);  // harmless
  recording.recorder.group_removed(none);
  recording.recorder.group_removed(4);
  EXPECT_EQ(recording.header().groups[4].state, GroupState::kRemoved);
  EXPECT_EQ(recording.recorder.group_made(101, 0, 2), 4u);
  EXPECT_EQ(recording.header().groups[4].id, 101u);
}

TEST(FlightRecorder, CallersWriteTheirOwnRing) {
  Recording recording;
  recording.recorder.enqueued(1, {}, "queued");
  EXPECT_EQ(recording.record(kSmall).kind, Kind::kEnqueued);
  EXPECT_TRUE(recording.whole(kSmall));
  EXPECT_EQ(recording.words(0), RecordWords{});
}

TEST(FlightRecorder, AWishIsTakenOnce) {
  Recording recording;
  EXPECT_EQ(recording.recorder.take_wish(), Reason::kNone);
  recording.recorder.want_dump(Reason::kFailure);
  EXPECT_EQ(recording.recorder.take_wish(), Reason::kFailure);
  EXPECT_EQ(recording.recorder.take_wish(), Reason::kNone);
}

TEST(FlightRecorder, TheImageIsTheMemory) {
  Recording recording;
  recording.recorder.started(1, 1, {}, "x");
  recording.recorder.clock(monotonic_now());
  recording.recorder.left();
  const auto image = recording.recorder.image();
  ASSERT_EQ(image.size(), image_bytes(kSmall, kSmall));
  EXPECT_EQ(std::memcmp(image.data(), recording.memory.get(), image.size()), 0);
  EXPECT_EQ(recording.header().state, State::kLeft);
}

}  // namespace
}  // namespace syncline::flight
