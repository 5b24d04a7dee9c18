// SliceState: all that a server knows of a slice or of some rows, for files and for other servers.
// Byte-exact: docs/formats/store.md. Pure.
//
//   a slice:  values in the accumulate type, then each slot (f32)
//   rows:     ids (i64), steps (u64), then each row's values (f32) with its slots behind them
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "ps/request.h"

namespace syncline::ps {

inline constexpr std::size_t kStateHeaderBytes = 32;

struct StateHeader {
  std::uint64_t steps = 0;       // of a slice
  std::uint64_t rows_there = 0;  // that the server has of the table
  std::uint64_t rows = 0;        // that follow
  std::uint32_t slots = 0;

  bool operator==(const StateHeader&) const = default;
};

void encode(const StateHeader& header, std::span<std::byte> out);
// kCorrupt: too short, or slots that no optimiser has.
Result<StateHeader> decode_state(std::span<const std::byte> state);

// Of a dense slice of `count` elements with so many slots.
std::size_t slice_state_bytes(DType type, std::size_t count, std::size_t slots);
// Of one row of a table, without the header.
std::size_t row_state_bytes(const KeyDescription& table);
// At most; of any optimiser. Of a table: as many rows as travel together.
std::size_t state_bytes_max(const KeyDescription& key, std::size_t slice);
std::size_t rows_of_a_state(const KeyDescription& table);
// f32 values behind a row's own: of all slots together.
std::size_t row_slot_values(const KeyDescription& table);

}  // namespace syncline::ps
