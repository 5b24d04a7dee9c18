#include "ps/slice_state.h"

#include <algorithm>

#include "base/bytes.h"
#include "kernels/reduce.h"
#include "ps/update.h"

namespace syncline::ps {

void encode(const StateHeader& header, std::span<std::byte> out) {
  ByteWriter writer;
  writer.put(header.steps);
  writer.put(header.rows_there);
  writer.put(header.rows);
  writer.put(header.slots);
  writer.put(std::uint32_t{0});
  std::copy(writer.bytes().begin(), writer.bytes().end(), out.begin());
}

Result<StateHeader> decode_state(std::span<const std::byte> state) {
  ByteReader in(state);
  StateHeader header;
  header.steps = in.get<std::uint64_t>();
  header.rows_there = in.get<std::uint64_t>();
  header.rows = in.get<std::uint64_t>();
  header.slots = in.get<std::uint32_t>();
  const auto reserved = in.get<std::uint32_t>();
  if (!in.ok() || header.slots > kSlotsMax || reserved != 0) {
    return Status(Code::kCorrupt, "a slice's state that does not verify");
  }
  return header;
}

std::size_t slice_state_bytes(DType type, std::size_t count, std::size_t slots) {
  return kStateHeaderBytes +
         count * (size_of(kernels::accumulate_type(type)) + slots * sizeof(float));
}

std::size_t row_slot_values(const KeyDescription& table) {
  if (!table.optimizer.has_value()) return 0;
  const bool one_a_row = table.optimizer->kind() == optim::Kind::kRowwiseAdagrad;
  return slot_count(*table.optimizer) * (one_a_row ? 1 : static_cast<std::size_t>(table.count));
}

std::size_t row_state_bytes(const KeyDescription& table) {
  return sizeof(std::int64_t) + sizeof(std::uint64_t) +
         (static_cast<std::size_t>(table.count) + row_slot_values(table)) * sizeof(float);
}

std::size_t rows_of_a_state(const KeyDescription& table) {
  return std::max<std::size_t>(1, kRowBytesMax / row_state_bytes(table));
}

std::size_t state_bytes_max(const KeyDescription& key, std::size_t slice) {
  if (key.table) return kStateHeaderBytes + rows_of_a_state(key) * row_state_bytes(key);
  return slice_state_bytes(key.dtype, key.slices[slice].count, kSlotsMax);
}

}  // namespace syncline::ps
