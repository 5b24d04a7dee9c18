// Runs one reduction through every collective and schedule that can compute it.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "tests/harness/calls.h"
#include "tests/harness/schedules.h"
#include "tests/harness/thread_job.h"

namespace syncline::numerics {

using harness::Bytes;

inline constexpr DType kFloats[] = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16};

// `input(rank)`: elements of `type`. Every result must equal `expected` bit for bit.
inline void expect_every_reduction(int ranks, DType type, ReduceOp op,
                                   const std::function<Bytes(int rank)>& input,
                                   const Bytes& expected) {
  harness::run_ranks(ranks, [&](Session& session) {
    Communicator& world = session.world();
    const Bytes in = input(world.rank());
    const auto say = [&](Collective kind, const std::string& name) {
      return std::string(to_string(kind)) + " " + to_string(type) + " " + to_string(op) + " by " +
             name + " on rank " + std::to_string(world.rank()) + " of " + std::to_string(ranks);
    };
    for (const auto& name : harness::schedules_for(Collective::kAllReduce, ranks)) {
      EXPECT_EQ(harness::all_reduce(world, type, in, op, harness::with_schedule(name)), expected)
          << say(Collective::kAllReduce, name);
    }
    for (const auto& name : harness::schedules_for(Collective::kReduceScatter, ranks)) {
      EXPECT_EQ(harness::reduce_scatter(world, type, in, op, harness::with_schedule(name)),
                expected)
          << say(Collective::kReduceScatter, name);
    }
    for (const auto& name : harness::schedules_for(Collective::kReduce, ranks)) {
      const int root = ranks - 1;
      const Bytes out = harness::reduce(world, type, in, root, op, harness::with_schedule(name));
      if (world.rank() == root) {
        EXPECT_EQ(out, expected) << say(Collective::kReduce, name);
      }
    }
  });
}

}  // namespace syncline::numerics
