#include "observe/flight_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>

namespace syncline::observe {
namespace {

using flight::Header;
using flight::Kind;
using flight::Record;

constexpr std::size_t kFileBytesMax = flight::image_bytes(flight::kRecordsMax, flight::kRecordsMax);

Status unreadable(const std::string& source, const std::string& why) {
  return {Code::kCorrupt, source + ": " + why};
}

std::string zero_padded(const char* text, std::size_t size) {
  return {text, ::strnlen(text, size)};
}

bool ring_size_allowed(std::uint32_t records) {
  return std::has_single_bit(records) && records >= flight::kRecordsMin &&
         records <= flight::kRecordsMax;
}

Status check_header(const Header& header, std::size_t bytes, const std::string& source) {
  if (std::memcmp(header.magic, flight::kMagic, sizeof header.magic) != 0) {
    return unreadable(source, "is no flight record");
  }
  if (header.version != flight::kVersion) {
    return unreadable(source, "is a flight record of version " + std::to_string(header.version) +
                                  ", this program reads version " +
                                  std::to_string(flight::kVersion) + "; use the same release");
  }
  if (header.header_check != flight::header_check(header)) {
    return unreadable(source, "is damaged: the check of its header does not fit");
  }
  const bool sizes = header.header_bytes == flight::kHeaderBytes &&
                     header.record_bytes == flight::kRecordBytes &&
                     ring_size_allowed(header.records[0]) && ring_size_allowed(header.records[1]);
  const bool ranks = header.rank >= 0 && header.rank < header.world_size;
  if (!sizes || !ranks) return unreadable(source, "is damaged: sizes or ranks make no sense");
  const std::size_t expected = flight::image_bytes(header.records[0], header.records[1]);
  if (bytes != expected) {
    return unreadable(source, (bytes < expected ? "is truncated: " : "is too long: ") +
                                  std::to_string(bytes) + " bytes where " +
                                  std::to_string(expected) + " belong");
  }
  return {};
}

// The whole records of one ring, oldest first. Numbers may have wrapped; all lie within one lap.
std::vector<Record> records_of(std::span<const std::byte> ring, std::size_t& torn) {
  std::vector<Record> records;
  const auto count = static_cast<std::uint32_t>(ring.size() / flight::kRecordBytes);
  for (std::uint32_t i = 0; i < count; ++i) {
    flight::RecordWords words;
    std::memcpy(words.data(), ring.data() + std::size_t{i} * flight::kRecordBytes, sizeof words);
    if (std::all_of(words.begin(), words.end(), [](std::uint64_t word) { return word == 0; })) {
      continue;
    }
    const Record record = std::bit_cast<Record>(words);
    const bool whole =
        flight::seal(words, record.seq) == words.back() && (record.seq & (count - 1)) == i;
    if (whole) {
      records.push_back(record);
    } else {
      ++torn;
    }
  }
  if (records.empty()) return records;
  const std::uint32_t any = records.front().seq;
  std::sort(records.begin(), records.end(), [any](const Record& a, const Record& b) {
    return static_cast<std::int32_t>(a.seq - any) < static_cast<std::int32_t>(b.seq - any);
  });
  return records;
}

void add_events(const std::vector<Record>& records, std::vector<FlightEvent>& events) {
  std::uint16_t piece = 0;
  bool open = false;  // texts may follow
  for (const Record& record : records) {
    if (record.kind != Kind::kText) {
      events.push_back({record, ""});
      piece = 0;
      open = true;
      continue;
    }
    // The record that a text belongs to may be overwritten.
    open = open && record.extra == piece;
    if (!open) continue;
    ++piece;
    events.back().text +=
        zero_padded(reinterpret_cast<const char*>(record.body.data()), record.body.size());
  }
}

Nanos bounded(double value) {
  constexpr double kMax = 4e18;
  return std::isfinite(value) ? static_cast<Nanos>(std::clamp(value, -kMax, kMax)) : 0;
}

}  // namespace

Nanos FlightDump::mono(std::uint64_t ticks) const {
  const flight::ClockPair& start = header.start;
  const flight::ClockPair& end = header.clocks[header.newest & 1];
  const auto since = static_cast<double>(static_cast<std::int64_t>(ticks - start.ticks));
  const bool known = end.ticks > start.ticks && end.mono > start.mono;
  const double rate = known ? static_cast<double>(end.mono - start.mono) /
                                  static_cast<double>(end.ticks - start.ticks)
                            : 1.0;
  return bounded(static_cast<double>(start.mono) + since * rate);
}

Nanos FlightDump::wall(Nanos mono) const {
  return bounded(static_cast<double>(header.start_wall) + static_cast<double>(mono) -
                 static_cast<double>(header.start.mono));
}

Nanos FlightDump::taken() const {
  const bool dumped = header.dump.reason != flight::Reason::kNone;
  return bounded(static_cast<double>(dumped ? header.dump.dumped_mono
                                            : header.clocks[header.newest & 1].mono));
}

Result<FlightDump> parse_flight(std::span<const std::byte> bytes, const std::string& source) {
  FlightDump dump;
  dump.source = source;
  if (bytes.size() < sizeof dump.header) {
    return unreadable(source, bytes.empty() ? "is empty"
                                            : "is no flight record, or truncated: " +
                                                  std::to_string(bytes.size()) + " bytes");
  }
  std::memcpy(&dump.header, bytes.data(), sizeof dump.header);
  const Status status = check_header(dump.header, bytes.size(), source);
  if (!status.ok()) return status;
  dump.job = zero_padded(dump.header.job, sizeof dump.header.job);
  dump.host = zero_padded(dump.header.host, sizeof dump.header.host);
  std::span<const std::byte> rest = bytes.subspan(flight::kHeaderBytes);
  for (const std::uint32_t records : dump.header.records) {
    const std::size_t size = std::size_t{records} * flight::kRecordBytes;
    add_events(records_of(rest.first(size), dump.torn), dump.events);
    rest = rest.subspan(size);
  }
  std::stable_sort(
      dump.events.begin(), dump.events.end(),
      [](const FlightEvent& a, const FlightEvent& b) { return a.record.ticks < b.record.ticks; });
  return dump;
}

Result<FlightDump> read_flight(const std::string& file) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat info {};
  const bool found = fd >= 0 && ::fstat(fd, &info) == 0;
  const std::string why = found ? "" : std::strerror(errno);
  Status status;
  std::vector<std::byte> bytes;
  if (!found) {
    status = unreadable(file, "cannot be read: " + why);
  } else if (!S_ISREG(info.st_mode)) {
    status = unreadable(file, "is no file");
  } else if (static_cast<std::size_t>(info.st_size) > kFileBytesMax) {
    status = unreadable(file, "is no flight record: too long");
  } else {
    bytes.resize(static_cast<std::size_t>(info.st_size));
    std::size_t at = 0;
    for (ssize_t got; at < bytes.size(); at += static_cast<std::size_t>(got)) {
      got = ::pread(fd, bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
      if (got <= 0) break;
    }
    bytes.resize(at);
  }
  if (fd >= 0) ::close(fd);
  if (!status.ok()) return status;
  return parse_flight(bytes, file);
}

}  // namespace syncline::observe
