// Request: what a worker asks of a server. Byte-exact: docs/formats/store.md. Pure.
//
// Requests of a pair travel as messages with kRequestTag, in order. What follows the header in the
// same message is the inline part, at most kInlineMax bytes; a longer payload is a message of its
// own with the request's tag, and answers come under that tag too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "ps/placement.h"
#include "ps/rules.h"
#include "syncline/optim.h"
#include "syncline/types.h"

namespace syncline::ps {

inline constexpr int kRequestTag = 0;
// Stores share pairs but no tags, unless their numbers are kStoresAtOnce apart: of each, one for
// its ErrorNotes, then those of its requests, which the worker takes in turn.
inline constexpr std::int32_t kTagsOfStore = 1 << 23;
inline constexpr int kStoresAtOnce = 255;
constexpr std::int32_t error_tag(std::uint16_t store) {
  return 1 + store % kStoresAtOnce * kTagsOfStore;
}
constexpr std::int32_t first_reply_tag(std::uint16_t store) { return error_tag(store) + 1; }
constexpr std::int32_t last_reply_tag(std::uint16_t store) {
  return error_tag(store) + (kTagsOfStore - 1);
}
inline constexpr std::size_t kRequestHeaderBytes = 56;
inline constexpr std::size_t kInlineMax = 16 << 10;
inline constexpr std::size_t kRequestBytesMax = kRequestHeaderBytes + kInlineMax;
inline constexpr std::size_t kKeyNameMax = 1024;
// Of one push of rows with their ids, and of the rows that one pull asks for: what a request may
// make a server hold. So one row with its id is no longer either.
inline constexpr std::size_t kRowBytesMax = 4 << 20;
inline constexpr std::uint64_t kRowElementsMax =
    (kRowBytesMax - sizeof(std::int64_t)) / sizeof(float);

// The numeric values travel on the wire: never renumber.
enum class RequestKind : std::uint8_t {
  kOpen = 1,       // inline: Rules; answer: the same. Of each store first
  kCreate = 2,     // inline: KeyDescription. Worker 0 only
  kAssign = 3,     // payload: the slice's first value. Worker 0 only
  kPublish = 4,    // inline: KeyDescription; to server 0, which keeps the directory. Worker 0 only
  kLookup = 5,     // inline: name; answer: KeyDescription, once published
  kOptimizer = 6,  // inline: optimiser; from header.clock on
  kPush = 7,       // payload: the slice's contribution; where it `answers`, answer: the slice
  kPull = 8,       // answer: the slice
  kClock = 9,      // all clocks below header.clock have ended
  kFlush = 10,     // answer: a byte of 0, when all earlier requests have been taken
  kLeave = 11,     // this worker uses the store no more
  // In bulk synchronous stores all servers hear of each push and pull of rows, so that a table's
  // clocks end everywhere alike: those that have none of the rows get a request with count 0.
  kPushRows = 12,  // payload: count ids (i64), then their gradients (f32)
  kPullRows = 13,  // inline: count ids (i64); answer: their rows (f32); none to count 0
  kStats = 14,     // answer: ServerStats
  // Files (slice_state.h). A state waits as a pull of the same key would.
  kState = 15,    // answer: the slice's state; of a table: of some rows, from the count-th on
  kRestore = 16,  // payload: count bytes of such a state. Worker 0 only, before kPublish
};

struct Request {
  RequestKind kind{};
  std::uint16_t store = 0;
  std::uint32_t key = 0;
  std::uint32_t slice = 0;
  std::int32_t tag = 0;
  std::int32_t priority = 0;
  DType dtype = DType::kF32;
  std::uint64_t clock = 0;
  std::uint64_t count = 0;    // elements of the payload; rows
  double samples = 1;         // behind this contribution
  std::uint32_t inlined = 0;  // bytes of the inline part
  bool separate = false;      // the payload is a message of its own
  bool continues = false;     // one push with the request before it
  bool answers = false;       // of a push: a pull of the slice is right behind it, under tag + 1
  // Of a relay's push: the payload is a sum over `samples`, in the accumulate type, whose parts
  // were multiplied by their samples or, if not `weighted`, have one sample each.
  bool summed = false;
  bool weighted = false;

  bool operator==(const Request&) const = default;
};

// Of a whole message that decode_request() may yet refuse; 0 of one that is too short.
std::uint16_t store_of(std::span<const std::byte> message);
void encode(const Request& request, std::span<std::byte, kRequestHeaderBytes> out);
// A whole message of kRequestTag; kCorrupt when it is none.
Result<Request> decode_request(std::span<const std::byte> message);

// How rows that are asked for first come to be.
struct RowInit {
  enum class Kind : std::uint8_t { kConstant = 0, kUniform = 1, kNormal = 2 };
  Kind kind = Kind::kConstant;
  double a = 0;  // the constant; the lower bound; the mean
  double b = 0;  // the upper bound; the deviation
  std::uint64_t seed = 0;

  bool operator==(const RowInit&) const = default;
};

// A key as the directory knows it.
struct KeyDescription {
  std::string name;
  std::uint32_t key = 0;
  DType dtype = DType::kF32;
  std::uint64_t count = 0;          // elements; of a table: of one row
  std::vector<PlacedSlice> slices;  // of a dense key
  bool table = false;
  std::uint64_t rows_max = 0;  // ids below it; 0: any
  RowInit init;
  std::optional<optim::Optimizer> optimizer;  // of a table
};

std::vector<std::byte> encode(const KeyDescription& key);
Result<KeyDescription> decode_key(std::span<const std::byte> bytes);

std::vector<std::byte> encode(const Rules& rules);
Result<Rules> decode_rules(std::span<const std::byte> bytes);

// Of this kind, its numbers to be set; none: a number that no kind has.
std::optional<optim::Optimizer> blank_optimizer(optim::Kind kind);
std::vector<std::byte> encode(const optim::Optimizer& optimizer);
Result<optim::Optimizer> decode_optimizer(std::span<const std::byte> bytes);

struct ErrorNote {
  std::int32_t tag = 0;  // the request's; its answer comes empty
  Code code = Code::kInternal;
  std::string text;
};
inline constexpr std::size_t kErrorNoteBytes = 1024;  // at most
std::vector<std::byte> encode(const ErrorNote& note);
Result<ErrorNote> decode_error(std::span<const std::byte> bytes);

// One server's state, for reports.
struct ServerStats {
  std::uint64_t keys = 0, rows = 0;
  std::uint64_t value_bytes = 0;  // values
  std::uint64_t state_bytes = 0;  // of optimisers
  std::uint64_t held_bytes = 0;   // contributions under way
  std::uint64_t updates = 0;
  std::uint64_t age_sum = 0, age_max = 0;  // of gradients, in updates of their slice
  std::uint64_t closed = 0;                // clocks
};
inline constexpr std::size_t kServerStatsBytes = 9 * 8;
std::vector<std::byte> encode(const ServerStats& stats);
Result<ServerStats> decode_stats(std::span<const std::byte> bytes);

}  // namespace syncline::ps
