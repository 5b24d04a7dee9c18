#include "ps/norm_exchange.h"

#include <bit>
#include <cmath>

#include "base/bytes.h"

namespace syncline::ps {

std::vector<std::byte> encode(const SumsNote& note) {
  ByteWriter out;
  out.put(note.store);
  out.put(std::uint16_t{0});
  out.put(note.key);
  out.put(note.slice);
  out.put(static_cast<std::uint32_t>(note.sums.size()));
  out.put(note.clock);
  for (const SquareSums& each : note.sums) {
    out.put(std::bit_cast<std::uint64_t>(each.weights));
    out.put(std::bit_cast<std::uint64_t>(each.update));
  }
  return out.take();
}

Result<SumsNote> decode_sums(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  SumsNote note;
  note.store = in.get<std::uint16_t>();
  const auto reserved = in.get<std::uint16_t>();
  note.key = in.get<std::uint32_t>();
  note.slice = in.get<std::uint32_t>();
  const auto count = in.get<std::uint32_t>();
  note.clock = in.get<std::uint64_t>();
  const bool fits = count <= kSquareSumsMax && in.remaining() == count * sizeof(SquareSums);
  for (std::uint32_t i = 0; fits && i < count; ++i) {
    const auto weights = in.get<std::uint64_t>();
    note.sums.push_back(
        {std::bit_cast<double>(weights), std::bit_cast<double>(in.get<std::uint64_t>())});
  }
  if (!fits || !in.at_end() || reserved != 0) {
    return Status(Code::kCorrupt, "sums of squares that do not verify");
  }
  return note;
}

bool NormExchange::add(std::uint64_t clock, std::size_t slice, std::vector<SquareSums> sums) {
  if (open_.count(clock) == 0 && open_.size() >= kClocksMax) return false;
  return open_[clock].emplace(slice, std::move(sums)).second;
}

bool NormExchange::knows(std::uint64_t clock, std::size_t slice) const {
  const auto at = open_.find(clock);
  return at != open_.end() && at->second.count(slice) > 0;
}

std::optional<std::vector<SquareSums>> NormExchange::whole(std::uint64_t clock) const {
  const auto at = open_.find(clock);
  if (at == open_.end() || at->second.size() < slices_) return std::nullopt;
  std::vector<SquareSums> all;
  for (const auto& [slice, sums] : at->second) all.insert(all.end(), sums.begin(), sums.end());
  return all;
}

std::vector<std::uint64_t> NormExchange::clocks() const {
  std::vector<std::uint64_t> all;
  for (const auto& [clock, slices] : open_) all.push_back(clock);
  return all;
}

}  // namespace syncline::ps
