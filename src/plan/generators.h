// The table of schedule generators: pure functions, thread-safe. A new algorithm is one file in
// generators/ and one line in generators.cc.
#pragma once

#include <span>
#include <string_view>

#include "plan/schedule.h"

namespace syncline::plan {

inline constexpr int kRanksMax = 4096;  // of a generated or parsed schedule
// Generators whose steps over all ranks grow with the square of the rank count stop here.
inline constexpr int kRanksMaxQuadratic = 512;
// all_to_all has a chunk for every pair of ranks, and chunks are counted in 16 bits.
inline constexpr int kRanksMaxAllToAll = 255;

// Immutable.
struct Generator {
  const char* name;
  // Whether make() gives a right schedule for this kind and rank count; n < 1 is never supported.
  bool (*supports)(Collective kind, int n);
  // Precondition: supports(kind, n) and 0 <= root < n. `root` matters to rooted kinds only.
  Schedule (*make)(Collective kind, int n, int root);
};

std::span<const Generator> all_generators();
// nullptr if there is none of that name.
const Generator* find_generator(std::string_view name);

}  // namespace syncline::plan
