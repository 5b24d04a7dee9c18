// Fingerprint of an operation: 16 bytes that ride with its first frame to each peer, so that ranks
// which disagree find out before a byte is reduced. Pure.
//
// Bytes: kind u8 (bit 7: the `_v` form), dtype u8, reduce op u8 (bits 0-6; bit 7: reproducible),
// schedule hash u8, root u16, name hash u16, count u64; all little-endian. Fields that a collective
// does not use are packed as 0 (root: kNoRoot).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "syncline/types.h"

namespace syncline::wire {

inline constexpr std::uint16_t kNoRoot = 0xffff;
// Count of a `_v` form as a whole; each of its messages has the count of the block that it carries.
inline constexpr std::uint64_t kVariousCounts = ~std::uint64_t{0};

// The same type as transport::Fingerprint, which lies a layer above.
using FingerprintBytes = std::array<std::byte, 16>;

// Values from the wire are kept as they came: describe() shows what is no valid enumerator as a
// number.
struct Operation {
  Collective kind = Collective::kBarrier;
  DType dtype = DType::kF32;
  ReduceOp op = ReduceOp::kSum;
  std::uint8_t schedule_hash = 0;  // of the schedule that runs and the segments it is cut into
  std::uint16_t root = kNoRoot;
  std::uint16_t name_hash = 0;  // hash16() of CallOptions::name; 0 = none
  std::uint64_t count = 0;      // elements
  bool unequal = false;         // blocks of unequal counts: the `_v` form
  bool reproducible = false;    // of a reduction: must evaluate the canonical sum

  bool operator==(const Operation&) const = default;
};

FingerprintBytes pack(const Operation& operation);
Operation unpack(const FingerprintBytes& bytes);

// FNV-1a folded down; 0 only for the empty text.
std::uint16_t hash16(std::string_view text);
std::uint8_t hash8(std::string_view text);

// "all_reduce(f32, 200 elements, sum)", "broadcast(f32, 1 element, root 2)", "barrier()".
std::string describe(const Operation& operation);
// Both sides for a mismatch message: "rank 0: all_reduce(f32, 200 elements, sum); rank 3:
// barrier()". Adds what describe() leaves out when only that differs: "; their names differ".
std::string describe_mismatch(int rank_a, const Operation& a, int rank_b, const Operation& b);

}  // namespace syncline::wire
