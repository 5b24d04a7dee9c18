// Rules: how a store keeps its workers in step; the same on all of them.
#pragma once

#include <cstdint>

#include "ps/clock_table.h"

namespace syncline::ps {

enum class Combine : std::uint8_t { kSum = 0, kMeanBySamples = 1 };

struct Rules {
  std::uint64_t bound = 0;  // 0: bulk synchronous; kUnbounded: asynchronous
  Combine combine = Combine::kSum;
  bool scale_by_age = false;  // divides a gradient by 1 + its age

  bool operator==(const Rules&) const = default;
  bool is_bulk() const { return bound == 0; }
};

}  // namespace syncline::ps
