#include "observe/flight_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "observe/flight_fixture_test.h"

namespace syncline::observe {
namespace {

using ::testing::HasSubstr;

std::string refusal(std::span<const std::byte> bytes) {
  const auto dump = parse_flight(bytes, "FILE");
  if (dump.ok()) return "accepted";
  EXPECT_EQ(dump.status().code(), Code::kCorrupt);
  EXPECT_EQ(dump.status().message().find('\n'), std::string::npos);
  EXPECT_EQ(dump.status().message().rfind("FILE: ", 0), 0u) << dump.status().message();
  return dump.status().message();
}

TEST(FlightReader, ReadsWhatTheRecorderWrote) {
  RecordedRank rank(2);
  rank.call(1, true);
  rank.call(2, false);
  rank.recorder.enqueued(1, all_reduce_of(7), "later");
  const auto dump = parse_flight(rank.recorder.image(), "FILE");
  ASSERT_TRUE(dump.ok()) << dump.status().to_string();
  EXPECT_EQ(dump->job, "job");
  EXPECT_EQ(dump->host, "host");
  EXPECT_EQ(dump->torn, 0u);
  std::vector<flight::Kind> kinds;
  for (const FlightEvent& event : dump->events) kinds.push_back(event.record.kind);
  using flight::Kind;
  EXPECT_EQ(kinds, (std::vector<Kind>{Kind::kGroupMade, Kind::kStarted, Kind::kDone, Kind::kStarted,
                                      Kind::kEnqueued}));
}

TEST(FlightReader, OrdersWhatHasGoneRoundTheRing) {
  RecordedRank rank(0);
  for (std::uint64_t op = 1; op <= 500; ++op) rank.call(op, true);
  const auto dump = parse_flight(rank.recorder.image(), "FILE");
  ASSERT_TRUE(dump.ok());
  ASSERT_EQ(dump->events.size(), 64u);
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(dump->events[i].record.op, 469 + i / 2);
}

TEST(FlightReader, NumbersThatWrapKeepTheirOrder) {
  RecordedRank rank(0);
  auto image = rank.recorder.image();
  for (std::uint32_t i = 0; i < 64; ++i) {
    const std::uint32_t seq = UINT32_MAX - 31 + i;
    flight::Record record;
    record.ticks = 1000;  // equal, so that the numbers alone give the order
    record.op = i;
    record.kind = flight::Kind::kStarted;
    auto words = std::bit_cast<flight::RecordWords>(record);
    words.back() = flight::seal(words, seq);
    std::memcpy(image.data() + flight::kHeaderBytes + (seq & 63) * flight::kRecordBytes,
                words.data(), sizeof words);
  }
  const auto dump = parse_flight(image, "FILE");
  ASSERT_TRUE(dump.ok());
  ASSERT_EQ(dump->events.size(), 64u);
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(dump->events[i].record.op, i);
}

TEST(FlightReader, TornRecordsAreCountedAndSkipped) {
  RecordedRank rank(0);
  rank.call(1, true);
  rank.call(2, true);
  const auto image = rank.recorder.image();
  const std::size_t at = flight::kHeaderBytes + 4 * flight::kRecordBytes;  // the end of #2
  for (std::size_t kept = 0; kept < flight::kRecordBytes; kept += 8) {
    // As if the writer had died after so many stores, over an older record.
    auto torn = image;
    std::fill(torn.begin() + static_cast<std::ptrdiff_t>(at + kept),
              torn.begin() + static_cast<std::ptrdiff_t>(at + flight::kRecordBytes), std::byte{1});
    const auto dump = parse_flight(torn, "FILE");
    ASSERT_TRUE(dump.ok());
    EXPECT_EQ(dump->torn, 1u) << kept;
    EXPECT_EQ(dump->events.size(), 4u);
    const FlightRank summary = summarize(dump.value());
    EXPECT_EQ(summary.last_done()->op, 1u);
    EXPECT_TRUE(summary.pending().empty()) << "the group's entry says that #2 has ended";
  }
}

TEST(FlightReader, JoinsTexts) {
  RecordedRank rank(0);
  const std::string text(100, 'x');
  rank.call(1, false);
  rank.fail(1, Code::kPeerLost, 3, text);
  rank.call(2, true);
  const auto dump = parse_flight(rank.recorder.image(), "FILE");
  ASSERT_TRUE(dump.ok());
  EXPECT_EQ(dump->events[2].record.kind, flight::Kind::kFailed);
  EXPECT_EQ(dump->events[2].text, text);
  // A text whose head was overwritten belongs to nothing.
  for (std::uint64_t op = 3; op < 33; ++op) rank.call(op, true);
  const auto later = parse_flight(rank.recorder.image(), "FILE");
  for (const FlightEvent& event : later->events) EXPECT_EQ(event.text, "");
}

TEST(FlightReader, RefusesInOneLine) {
  RecordedRank rank(0);
  const auto image = rank.recorder.image();
  const std::span<const std::byte> all(image);
  EXPECT_EQ(refusal(all), "accepted");
  EXPECT_THAT(refusal({}), HasSubstr("is empty"));
  EXPECT_THAT(refusal(all.first(100)), HasSubstr("truncated: 100 bytes"));
  EXPECT_THAT(refusal(all.first(image.size() - 1)), HasSubstr("is truncated: "));
  auto longer = image;
  longer.push_back({});
  EXPECT_THAT(refusal(longer), HasSubstr("is too long"));
  const std::vector<std::byte> zeros(image.size());
  EXPECT_THAT(refusal(zeros), HasSubstr("is no flight record"));

  const auto changed = [&](auto edit, bool sealed) {
    flight::Header header;
    std::memcpy(&header, image.data(), sizeof header);
    edit(header);
    if (sealed) header.header_check = flight::header_check(header);
    auto copy = image;
    std::memcpy(copy.data(), &header, sizeof header);
    return refusal(copy);
  };
  EXPECT_THAT(changed([](auto& h) { h.version = 2; }, true), HasSubstr("of version 2"));
  EXPECT_THAT(changed([](auto& h) { h.rank = 1; }, false), HasSubstr("check of its header"));
  EXPECT_THAT(changed([](auto& h) { h.rank = 4; }, true), HasSubstr("no sense"));
  for (const std::uint32_t records : {0u, 8u, 48u, 1u << 21, UINT32_MAX}) {
    EXPECT_THAT(changed([&](auto& h) { h.records[1] = records; }, true), HasSubstr("no sense"));
  }
}

TEST(FlightReader, FilesThatAreNone) {
  EXPECT_THAT(read_flight("/nowhere/x").status().message(), HasSubstr("cannot be read"));
  EXPECT_THAT(read_flight("/tmp").status().message(), HasSubstr("is no file"));
  EXPECT_THAT(read_flight("/dev/zero").status().message(), HasSubstr("is no file"));
}

TEST(FlightReader, TurnsTicksIntoTime) {
  RecordedRank rank(0);
  const Nanos before = monotonic_now();
  rank.call(1, true);
  const Nanos after = monotonic_now();
  while (monotonic_now() - before < 20 * kMillisecond) continue;
  const FlightDump dump = rank.dump(0);
  const Nanos at = dump.mono(dump.events[1].record.ticks);
  EXPECT_GT(at, before - kMillisecond);
  EXPECT_LT(at, after + kMillisecond);
  EXPECT_NEAR(static_cast<double>(dump.wall(at)), static_cast<double>(wall_now()), 1e9);
}

}  // namespace
}  // namespace syncline::observe
