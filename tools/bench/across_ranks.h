// What a benchmark's ranks tell each other. Collective.
#pragma once

#include <cstdint>

#include "syncline/communicator.h"

namespace syncline::tools {

inline double max_over_ranks(Communicator& world, double value) {
  world.all_reduce(TensorView(&value, 1), ReduceOp::kMax).wait();
  return value;
}

inline std::int64_t sum_over_ranks(Communicator& world, std::uint64_t count) {
  auto sum = static_cast<std::int64_t>(count);
  world.all_reduce(TensorView(&sum, 1)).wait();
  return sum;
}

}  // namespace syncline::tools
