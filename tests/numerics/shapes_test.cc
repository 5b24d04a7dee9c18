// Strides, roots, empty tensors, odd rank counts: NUM-03, NUM-04, NUM-05, NUM-07.
#include <type_traits>
#include <vector>

#include "plan/generators.h"
#include "plan/partition.h"
#include "tests/numerics/every_reduction.h"

namespace syncline::numerics {
namespace {

using harness::with_schedule;

// The core has no strides: a view is a pointer and a count, so a column cannot be passed by
// mistake. (The torch overloads take strided tensors; their tests are with them.)
TEST(Num03, ViewsCannotExpressStrides) {
  static_assert(!std::is_constructible_v<TensorView, float*, std::size_t, std::size_t>);
  static_assert(!std::is_constructible_v<TensorView, float*, std::size_t, std::ptrdiff_t*>);
  static_assert(!std::is_constructible_v<ConstTensorView, const float*, std::vector<std::int64_t>,
                                         std::vector<std::int64_t>>);
  float column[3] = {1, 2, 3};
  const TensorView view(column, 3);
  EXPECT_EQ(view.bytes(), 12u);
}

TEST(Num04, ReduceLeavesOtherRanksAlone) {
  using Table = std::vector<std::int64_t>;
  const Table inputs[2] = {{1, 2, 3, 4}, {10, 20, 30, 40}};
  harness::run_ranks(2, [&](Session& session) {
    for (const auto& name : harness::schedules_for(Collective::kReduce, 2)) {
      for (const int root : {0, 1}) {
        Table data = inputs[session.rank()];
        session.world()
            .reduce({data.data(), data.size()}, root, ReduceOp::kSum, with_schedule(name))
            .wait();
        const Table expected =
            session.rank() == root ? Table{11, 22, 33, 44} : inputs[session.rank()];
        EXPECT_EQ(data, expected) << name << ", root " << root;
      }
    }
  });
}

TEST(Num05, EmptyTensorsKeepRanksInStep) {
  harness::run_ranks(4, [](Session& session) {
    Communicator& world = session.world();
    std::vector<float> none;
    const TensorView empty(none.data(), 0);
    for (const auto& name : harness::schedules_for(Collective::kAllGather, 4)) {
      world.all_gather(empty, empty, with_schedule(name)).wait();
    }
    for (const auto& name : harness::schedules_for(Collective::kAllReduce, 4)) {
      world.all_reduce(empty, ReduceOp::kAverage, with_schedule(name)).wait();
    }
    for (const auto& name : harness::schedules_for(Collective::kReduceScatter, 4)) {
      world.reduce_scatter(empty, empty, ReduceOp::kSum, with_schedule(name)).wait();
    }
    for (const auto& name : harness::schedules_for(Collective::kBroadcast, 4)) {
      world.broadcast(empty, 2, with_schedule(name)).wait();
    }
    for (const auto& name : harness::schedules_for(Collective::kReduce, 4)) {
      world.reduce(empty, 3, ReduceOp::kSum, with_schedule(name)).wait();
    }
    float one = 1.0f;
    world.all_reduce({&one, 1}).wait();
    EXPECT_EQ(one, 4.0f);
  });
}

TEST(Num07, EveryRankCountAndOddCounts) {
  for (int ranks = 1; ranks <= 7; ++ranks) {
    for (const std::size_t count : {1, 2, 3, 5, 7, 13, 1023, 1024, 1025}) {
      std::vector<std::int64_t> expected(count);
      for (std::size_t i = 0; i < count; ++i) {
        expected[i] = ranks * static_cast<std::int64_t>(i) + 1000 * ranks * (ranks - 1) / 2;
      }
      const auto input = [count](int r) {
        std::vector<std::int64_t> x(count);
        for (std::size_t i = 0; i < count; ++i) x[i] = 1000 * r + static_cast<std::int64_t>(i);
        return harness::to_bytes(x);
      };
      expect_every_reduction(ranks, DType::kI64, ReduceOp::kSum, input,
                             harness::to_bytes(expected));
    }
  }
}

TEST(Num07, ChunksDifferByAtMostOneElement) {
  for (int chunk = 0; chunk < 13; ++chunk) {
    EXPECT_EQ(plan::chunk_range(Collective::kAllReduce, 13, 13, 13, chunk).count, 1u);
  }
  for (const plan::Generator& generator : plan::all_generators()) {
    if (!generator.supports(Collective::kAllReduce, 13)) continue;
    const int chunks = generator.make(Collective::kAllReduce, 13, 0).chunks;
    for (const std::size_t count : {1, 13, 100, 1025}) {
      std::size_t least = count, most = 0;
      for (int c = 0; c < chunks; ++c) {
        const auto size = plan::chunk_range(Collective::kAllReduce, 13, count, chunks, c).count;
        least = std::min(least, size);
        most = std::max(most, size);
      }
      EXPECT_LE(most - least, 1u) << generator.name << ", " << count << " elements";
    }
  }
}

TEST(Num07, UnsupportedPairsAreRefusedAndLoseNothing) {
  harness::run_ranks(3, [](Session& session) {
    std::vector<float> in(6, 1.0f), out(2);
    int refused = 0;
    for (const plan::Generator& generator : plan::all_generators()) {
      if (generator.supports(Collective::kReduceScatter, 3)) continue;
      ++refused;
      try {
        session.world().reduce_scatter({in.data(), 6}, {out.data(), 2}, ReduceOp::kSum,
                                       with_schedule(generator.name));
        ADD_FAILURE() << generator.name << " was accepted";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::kUnsupported) << error.what();
      }
    }
    EXPECT_GE(refused, 2);  // two_shot and halving_doubling
    session.world().reduce_scatter({in.data(), 6}, {out.data(), 2}).wait();
    EXPECT_EQ(out[1], 3.0f);
  });
}

}  // namespace
}  // namespace syncline::numerics
