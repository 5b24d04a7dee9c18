// Bytes of a flight record (docs/formats/flight-record.md). Plain structs that lie in shared memory
// and in files: fixed sizes, little-endian, no padding.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

namespace syncline::flight {

inline constexpr char kMagic[8] = {'S', 'L', 'F', 'L', 'I', 'G', 'H', 'T'};
inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::size_t kHeaderBytes = 4096;  // with the groups
inline constexpr std::size_t kGroupsMax = 64;
inline constexpr std::size_t kRecordBytes = 64;
inline constexpr std::size_t kNameBytes = 16;
inline constexpr std::size_t kTextBytes = 32;
inline constexpr std::uint32_t kRecordsMin = 16;
inline constexpr std::uint32_t kRecordsMax = 1u << 20;
inline constexpr const char* kFileEnding = ".flight";
inline constexpr const char* kMemoryFileName = "syncline-flight";  // of the launcher's

enum class Kind : std::uint8_t {
  kGroupMade = 1,
  kGroupRemoved = 2,
  kEnqueued = 3,
  kStarted = 4,
  kProgress = 5,
  kDone = 6,
  kFailed = 7,
  kSuspected = 8,
  kBack = 9,
  kLost = 10,
  kMismatch = 11,
  kStall = 12,
  kVerdict = 13,
  kAbortSent = 14,
  kAbortReceived = 15,
  kLeft = 16,
  kText = 17,
};

enum class Counter : std::uint32_t { kTimeStamp = 1, kNanoseconds = 2, kVirtual = 3 };
enum class State : std::uint32_t { kInJob = 1, kLeft = 2 };
enum class GroupState : std::uint32_t { kUnused = 0, kThere = 1, kRemoved = 2 };
enum class Reason : std::uint32_t { kNone = 0, kFailure = 1, kRequest = 2, kProcessEnd = 3 };

using FingerprintBytes = std::array<std::byte, 16>;

struct Record {
  std::uint64_t ticks = 0;
  std::uint64_t op = 0;
  Kind kind{};
  std::uint8_t code = 0;
  std::uint16_t extra = 0;
  std::uint32_t comm = 0;
  std::array<std::byte, 32> body{};
  std::uint32_t seq = 0;
  std::uint32_t check = 0;
};
static_assert(sizeof(Record) == kRecordBytes);

struct CallBody {
  FingerprintBytes fingerprint{};
  std::array<char, kNameBytes> name{};
};
struct ProgressBody {
  std::uint64_t start = 0;
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::uint16_t awaited = 0;
  std::array<std::uint16_t, 3> ranks{};
};
struct EndBody {
  FingerprintBytes fingerprint{};
  std::uint64_t start = 0;
  std::int32_t peer = -1;
  std::uint32_t zero = 0;
};
// Also of aborts, where `number` is the rank that is blamed.
struct PeerBody {
  std::int32_t peer = -1;
  std::int32_t number = 0;  // milliseconds of silence
  FingerprintBytes fingerprint{};
  std::uint64_t zero = 0;
};
struct GroupBody {
  std::uint32_t rank = 0;
  std::uint32_t size = 0;
  std::array<std::uint64_t, 3> zero{};
};

template <class Body>
std::array<std::byte, 32> to_bytes(const Body& body) {
  static_assert(sizeof(Body) == 32 && std::is_trivially_copyable_v<Body>);
  std::array<std::byte, 32> bytes;
  std::memcpy(bytes.data(), &body, sizeof body);
  return bytes;
}
template <class Body>
Body from_bytes(const std::array<std::byte, 32>& bytes) {
  static_assert(sizeof(Body) == 32 && std::is_trivially_copyable_v<Body>);
  Body body;
  std::memcpy(&body, bytes.data(), sizeof body);
  return body;
}

struct ClockPair {
  std::uint64_t ticks = 0;
  std::uint64_t mono = 0;  // ns
};

struct Group {
  std::uint32_t id = 0;
  GroupState state{};
  std::uint32_t rank = 0;
  std::uint32_t size = 0;
  std::uint64_t started = 0;
  std::uint64_t ended = 0;
};
static_assert(sizeof(Group) == 32);

// What the dump adds.
struct DumpNote {
  Reason reason{};
  std::int32_t signal = 0;
  std::int32_t exit_code = -1;
  std::uint32_t process_state = 0;
  std::uint64_t dumped_mono = 0;
  std::uint64_t dumped_wall = 0;
};
static_assert(sizeof(DumpNote) == 32);

struct Header {
  char magic[8] = {};
  std::uint32_t version = kVersion;
  std::uint32_t header_bytes = kHeaderBytes;
  std::uint32_t record_bytes = kRecordBytes;
  std::array<std::uint32_t, 2> records{};  // of each ring
  std::int32_t rank = 0;
  std::int32_t world_size = 1;
  std::uint32_t pid = 0;
  Counter counter{};
  std::uint32_t zero = 0;
  ClockPair start;
  std::uint64_t start_wall = 0;
  char job[32] = {};
  char host[64] = {};
  std::uint32_t header_check = 0;
  State state{};
  std::array<ClockPair, 2> clocks{};
  std::uint32_t newest = 0;
  char gap[44] = {};
  DumpNote dump;
  char rest[1760] = {};
  std::array<Group, kGroupsMax> groups{};
};
static_assert(sizeof(Header) == kHeaderBytes && offsetof(Header, header_check) == 168 &&
              offsetof(Header, dump) == 256 && offsetof(Header, groups) == 2048);

constexpr std::size_t image_bytes(std::uint32_t records_0, std::uint32_t records_1) {
  return kHeaderBytes + kRecordBytes * (std::size_t{records_0} + records_1);
}

// FNV-1a over the fields that never change, with the magic in place.
inline std::uint32_t header_check(const Header& header) {
  Header copy = header;
  std::memcpy(copy.magic, kMagic, sizeof kMagic);
  const auto* bytes = reinterpret_cast<const unsigned char*>(&copy);
  std::uint32_t hash = 2166136261u;
  for (std::size_t i = 0; i < offsetof(Header, header_check); ++i) {
    hash = (hash ^ bytes[i]) * 16777619u;
  }
  return hash;
}

using RecordWords = std::array<std::uint64_t, kRecordBytes / 8>;

// The last word of a record: its number and the check over all before.
inline std::uint64_t seal(const RecordWords& words, std::uint32_t seq) {
  std::uint64_t x = 0;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) x ^= words[i];
  const std::uint32_t check = static_cast<std::uint32_t>(x ^ (x >> 32)) ^
                              static_cast<std::uint32_t>(seq * 0x9e3779b1u) ^ 0x5ca1ab1eu;
  return std::uint64_t{check} << 32 | seq;
}

}  // namespace syncline::flight
