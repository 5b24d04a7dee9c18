// NormExchange: of a tensor that is cut over servers, the squares of its slices. Optimisers that
// need a tensor's norms (update.h) step a clock when every slice has said its own.
//
// A clock: unknown -> some slices have said theirs -> whole -> forgotten, after the step.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "ps/update.h"

namespace syncline::ps {

// Of one slice, in pieces of kNormPiece elements.
inline constexpr std::size_t kSquareSumsMax = 1 << 10;
// Of a tensor that is cut.
inline constexpr std::size_t kSliceElementsMax = kSquareSumsMax * kNormPiece;

// What one server tells another, docs/formats/store.md. No sums: the slice does not step in this
// clock, since nobody has pushed it.
struct SumsNote {
  std::uint16_t store = 0;
  std::uint32_t key = 0;
  std::uint32_t slice = 0;
  std::uint64_t clock = 0;
  std::vector<SquareSums> sums;
};
inline constexpr std::size_t kSumsNoteBytesMax = 24 + kSquareSumsMax * 16;
std::vector<std::byte> encode(const SumsNote& note);
Result<SumsNote> decode_sums(std::span<const std::byte> bytes);

// Confined.
class NormExchange {
 public:
  explicit NormExchange(std::size_t slices) : slices_(slices) {}

  // False: the slice has said something already, or more clocks are open than can be.
  bool add(std::uint64_t clock, std::size_t slice, std::vector<SquareSums> sums);
  bool knows(std::uint64_t clock, std::size_t slice) const;
  // All slices' sums in their order, once all have said theirs.
  std::optional<std::vector<SquareSums>> whole(std::uint64_t clock) const;
  void forget(std::uint64_t clock) { open_.erase(clock); }
  std::vector<std::uint64_t> clocks() const;

 private:
  // A server is at most one step ahead of the others.
  static constexpr std::size_t kClocksMax = 2;
  using OfClock = std::map<std::size_t, std::vector<SquareSums>>;  // by slice

  std::size_t slices_;
  std::map<std::uint64_t, OfClock> open_;
};

}  // namespace syncline::ps
