#include "syncline/torch/collectives.h"

#include <torch/types.h>

#include "torch/test_ranks.h"

namespace syncline::torch_detail {
namespace {

using at::Tensor;

Tensor base_of(int rank) {
  return torch::tensor({1.0f, 2.0f, 3.0f, 4.0f}).view({2, 2}) + (rank == 0 ? 0.0f : 10.0f);
}

Tensor matrix(float a, float b, float c, float d) {
  return torch::tensor({a, b, c, d}).view({2, 2});
}

TEST(Num03, StridedViewsGoByLogicalIndex) {
  run_ranks(2, [](Communicator& world) {
    Tensor base = base_of(world.rank());
    all_reduce(world, base.select(1, 0)).wait();
    EXPECT_TRUE(at::equal(base, world.rank() == 0 ? matrix(12, 2, 16, 4) : matrix(12, 12, 16, 14)));

    base = base_of(world.rank());
    broadcast(world, base.select(1, 0), 0).wait();
    EXPECT_TRUE(at::equal(base, world.rank() == 0 ? matrix(1, 2, 3, 4) : matrix(1, 12, 3, 14)));

    base = base_of(world.rank());
    reduce(world, base.select(1, 0), 1).wait();
    EXPECT_TRUE(at::equal(base, world.rank() == 0 ? matrix(1, 2, 3, 4) : matrix(12, 12, 16, 14)));

    base = base_of(world.rank());
    Tensor all = torch::zeros({4, 2});
    all_gather(world, base.select(1, 0), all.select(1, 1)).wait();
    EXPECT_TRUE(at::equal(all.select(1, 1), torch::tensor({1.0f, 3.0f, 11.0f, 13.0f})));
    EXPECT_TRUE(at::equal(all.select(1, 0), torch::zeros({4})));
  });
}

TEST(Num03, DroppedWorkStillWritesItsResult) {
  run_ranks(2, [](Communicator& world) {
    Tensor base = base_of(world.rank());
    all_reduce(world, base.select(1, 0));
    all_reduce(world, base.select(1, 1)).wait();
    world.barrier().wait();
    const TensorWork later = all_reduce(world, torch::ones({3, 2}).t());
    while (!later.done()) std::this_thread::yield();
    EXPECT_EQ(base[0][1].item<float>(), 14);
  });
}

TEST(Num01, AverageOfScalarsAndEmptyTensors) {
  run_ranks(2, [](Communicator& world) {
    Tensor scalar = torch::full({}, world.rank() == 0 ? 2.0f : 4.0f);
    all_reduce(world, scalar, ReduceOp::kAverage).wait();
    EXPECT_EQ(scalar.item<float>(), 3.0f);
    Tensor empty = torch::zeros({1, 0, 2}), gathered = torch::zeros({2, 0, 2});
    all_reduce(world, empty).wait();
    all_gather(world, empty, gathered).wait();
    EXPECT_EQ(gathered.sizes(), at::IntArrayRef({2, 0, 2}));
    all_reduce(world, scalar).wait();
    EXPECT_EQ(scalar.item<float>(), 6.0f);
  });
}

TEST(Collectives, OutOfPlaceKeepsItsInput) {
  run_ranks(2, [](Communicator& world) {
    const Tensor in = base_of(world.rank());
    Tensor out = torch::zeros({2, 2}).t();
    all_reduce(world, in, out, ReduceOp::kMax).wait();
    EXPECT_TRUE(at::equal(out, base_of(1)));
    EXPECT_TRUE(at::equal(in, base_of(world.rank())));
  });
}

Code code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.code();
  }
  return Code::kOk;
}

TEST(Collectives, UnsupportedTensorsAreRefusedBeforeAnythingIsSent) {
  run_ranks(1, [](Communicator& world) {
    const auto meta = torch::empty({2}, torch::TensorOptions().device(at::kMeta));
    EXPECT_EQ(code_of([&] { all_reduce(world, meta); }), Code::kUnsupported);
    EXPECT_EQ(code_of([&] { all_reduce(world, torch::eye(2).to_sparse()); }), Code::kUnsupported);
    const auto complex = torch::zeros({2}, torch::TensorOptions().dtype(at::kComplexFloat));
    EXPECT_EQ(code_of([&] { all_reduce(world, complex); }), Code::kUnsupported);
    const auto expanded = torch::ones({1}).expand({4});
    EXPECT_EQ(code_of([&] { all_reduce(world, expanded); }), Code::kInvalidArgument);
    EXPECT_EQ(code_of([&] { all_reduce(world, Tensor()); }), Code::kInvalidArgument);
  });
}

}  // namespace
}  // namespace syncline::torch_detail
