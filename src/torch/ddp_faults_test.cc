// What DistributedDataParallel says when something is wrong, and its less common uses.
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <map>
#include <optional>

#include "syncline/torch/ddp.h"
#include "torch/bucket_plan.h"
#include "torch/test_ranks.h"
#include "torch/test_tensors.h"

namespace syncline::torch_detail {
namespace {

using at::Tensor;

Status failure_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.status();
  }
  return {};
}

bool mentions(const Status& status, const std::string& text) {
  return status.message().find(text) != std::string::npos;
}

TEST(BucketPlan, ReverseOrderFirstSmallPerType) {
  const std::vector<BucketItem> items = {{DType::kF32, 100}, {DType::kF64, 10}, {DType::kF32, 40},
                                         {DType::kF32, 30},  {DType::kF32, 0},  {DType::kF64, 5}};
  const auto plan = plan_buckets(items, 120, 500);
  ASSERT_EQ(plan.size(), 3u);
  EXPECT_EQ(plan[0].items, (std::vector<std::size_t>{4, 3}));
  EXPECT_EQ(plan[0].count, 30);
  EXPECT_EQ(plan[1].items, (std::vector<std::size_t>{5, 1}));
  EXPECT_EQ(plan[1].type, DType::kF64);
  EXPECT_EQ(plan[2].items, (std::vector<std::size_t>{2, 0}));
}

TEST(DdpAgreement, DifferentModelsNameTensorAndRank) {
  run_ranks(3, [](Communicator& world) {
    const bool odd = world.rank() == 2;
    const auto wrap = [&](NamedTensors parameters, NamedTensors buffers = {}) {
      return failure_of([&] { DistributedDataParallel<> ddp(parameters, buffers, world); });
    };
    const Tensor w = parameter({2, 3}, 1);
    Status status = wrap({{"fc.weight", odd ? parameter({2, 4}, 1) : w}});
    EXPECT_EQ(status.code(), Code::kMismatch);
    EXPECT_EQ(status.peer(), 2);
    EXPECT_TRUE(mentions(status, "'fc.weight'") && mentions(status, "[2, 4]")) << status.message();
    status = wrap({{odd ? "b" : "a", w}});
    EXPECT_TRUE(mentions(status, "'a'") && mentions(status, "'b'")) << status.message();
    NamedTensors more = {{"a", w}};
    if (odd) more.push_back({"extra", parameter({1}, 1)});
    EXPECT_TRUE(mentions(wrap(more), "'extra'"));
    EXPECT_TRUE(mentions(wrap({{"a", odd ? torch::ones({2}) : torch::ones({2}).requires_grad_()}}),
                         "requires_grad"));
    EXPECT_TRUE(mentions(wrap({{"a", w}}, {{"n", torch::ones({1}, odd ? at::kLong : at::kInt)}}),
                         "buffer 'n'"));
    EXPECT_TRUE(wrap({{"a", w}}).ok());
  });
}

TEST(DdpAgreement, OtherDevicesAreUnsupported) {
  run_ranks(1, [](Communicator& world) {
    const auto meta = torch::empty({2}, torch::TensorOptions().device(at::kMeta));
    const Status status = failure_of([&] {
      DistributedDataParallel<> ddp({{"w", meta}}, {}, world);
    });
    EXPECT_EQ(status.code(), Code::kUnsupported);
    EXPECT_TRUE(mentions(status, "'w'")) << status.message();
  });
}

TEST(DdpFaults, ABackwardThatThrowsOnOneRankFailsTheStepOnAllAndTheNextWorks) {
  run_ranks(2, [](Communicator& world) {
    Tensor a = parameter({1}, 1), b = parameter({1}, 1);
    DistributedDataParallel ddp(NamedTensors{{"a", a}, {"b", b}}, {}, world);
    const auto loss = [&] { return (a * 2).sum() + (b * 3).sum(); };
    for (int step = 0; step < 3; ++step) {
      Tensor y = ddp.pass(loss);
      const bool bad = step == 1 && world.rank() == 1;
      if (bad) y.register_hook([](const Tensor&) { throw std::runtime_error("user's bug"); });
      if (bad) {
        EXPECT_THROW(y.backward(), std::runtime_error);
      } else if (step == 1) {
        const Status status = failure_of([&] { y.backward(); });
        EXPECT_EQ(status.code(), Code::kCancelled);
        EXPECT_EQ(status.peer(), 1);
      } else {
        y.backward();
        EXPECT_EQ(value(a.grad()), 2);
      }
      a.mutable_grad().reset();
      b.mutable_grad().reset();
    }
  });
}

// DDP-01 with join off: 3 batches against 5.
TEST(Ddp01, WithoutJoinTheFinishedRankIsNamed) {
  run_ranks(2, [](Communicator& world) {
    Tensor w = parameter({1}, 1);
    DistributedDataParallel ddp(NamedTensors{{"w", w}}, {}, world);
    for (int i = 0; i < 3; ++i) ddp.pass([&] { return w.sum(); }).backward();
    if (world.rank() == 0) return;  // its session leaves
    const Status status = failure_of([&] { ddp.pass([&] { return w.sum(); }).backward(); });
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(status.peer(), 0) << status.to_string();
    EXPECT_TRUE(mentions(status, "rank 0")) << status.to_string();
  });
}

TEST(DdpFaults, SparseGradientsAreNamed) {
  run_ranks(2, [](Communicator& world) {
    Tensor table = parameter({5, 2}, 1);
    DistributedDataParallel ddp(NamedTensors{{"table", table}}, {}, world);
    const Tensor ids = torch::tensor({1, 3}, at::kLong);
    Tensor y = ddp.pass([&] { return torch::embedding(table, ids, -1, false, true).sum(); });
    const Status status = failure_of([&] { y.backward(); });
    EXPECT_EQ(status.code(), Code::kUnsupported) << status.message();
    EXPECT_TRUE(mentions(status, "'table'")) << status.message();
  });
}

TEST(DdpFaults, ARankWhoseBackwardReachesNoParameterStillTakesPart) {
  run_ranks(2, [](Communicator& world) {
    Tensor w = parameter({2}, 1);
    DistributedDataParallel ddp(NamedTensors{{"w", w}}, {}, world);
    Tensor x = torch::ones({2}).requires_grad_(true);
    Tensor y = ddp.pass([&] { return world.rank() == 0 ? (x * w).sum() : (x * 3).sum(); });
    y.backward();
    EXPECT_TRUE(at::equal(w.grad(), torch::full({2}, 0.5)));
  });
}

TEST(DdpFaults, UnfreezingAfterWrappingIsRefusedFreezingIsFine) {
  run_ranks(2, [](Communicator& world) {
    Tensor w = parameter({2}, 1), late = torch::ones({2}), frozen = parameter({2}, 1);
    DistributedDataParallel ddp(NamedTensors{{"w", w}, {"late", late}, {"frozen", frozen}}, {},
                                world);
    frozen.set_requires_grad(false);
    ddp.pass([&] { return (w * frozen).sum(); }).backward();
    EXPECT_TRUE(at::equal(w.grad(), torch::ones({2})));
    EXPECT_FALSE(frozen.grad().defined());
    late.set_requires_grad(true);
    const Status status = failure_of([&] { ddp.pass([&] { return w.sum(); }); });
    EXPECT_EQ(status.code(), Code::kFailedPrecondition);
    EXPECT_TRUE(mentions(status, "'late'"));
  });
}

TEST(DdpUses, SharedUsedTwiceEmptyAndDoubleBackward) {
  run_ranks(2, [](Communicator& world) {
    const double g = world.rank() + 1;
    Tensor w = parameter({2}, 1), empty = parameter({0, 8}, 1);
    DistributedDataParallel ddp(NamedTensors{{"w", w}, {"tied", w}, {"empty", empty}}, {}, world);
    Tensor y = ddp.pass([&] { return (w * g).sum() + (w * 10 * g).sum() + empty.sum(); });
    y.backward({}, /*retain_graph=*/true);
    EXPECT_TRUE(at::equal(w.grad(), torch::full({2}, 16.5)));
    y.backward();
    EXPECT_TRUE(at::equal(w.grad(), torch::full({2}, 33.0)));
    EXPECT_EQ(empty.grad().sizes(), empty.sizes());
  });
}

TEST(DdpUses, TwoModelsInOneBackwardWhateverTheOrder) {
  run_ranks(2, [](Communicator& world) {
    Tensor a = parameter({3}, 1), b = parameter({3}, 1);
    DistributedDataParallel first(NamedTensors{{"w", a}}, {}, world);
    DistributedDataParallel second(NamedTensors{{"w", b}}, {}, world);
    for (int step = 0; step < 3; ++step) {
      a.mutable_grad().reset();
      b.mutable_grad().reset();
      Tensor x = torch::ones({3});
      for (int i = 0; i < 2; ++i) {
        const bool use_first = (i == 0) == (world.rank() == 0);
        x = use_first ? first.pass([&] { return x * a; }) : second.pass([&] { return x * b; });
      }
      (x * (world.rank() + 1)).sum().backward();
      EXPECT_TRUE(at::equal(a.grad(), torch::full({3}, 1.5)));
      EXPECT_TRUE(at::equal(b.grad(), torch::full({3}, 1.5)));
    }
    EXPECT_NE(first.last_step().buckets[0].name, second.last_step().buckets[0].name);
  });
}

TEST(DdpUses, BucketViewsSurviveTheOptimizersZeroGrad) {
  run_ranks(2, [](Communicator& world) {
    Tensor a = parameter({3}, 1), b = parameter({2}, 1);
    DistributedDataParallel ddp(NamedTensors{{"a", a}, {"b", b}}, {}, world,
                                DdpOptions().gradient_as_bucket_view(true));
    torch::optim::SGD sgd({a, b}, torch::optim::SGDOptions(0.5));
    void* memory = nullptr;
    for (int step = 0; step < 3; ++step) {
      sgd.zero_grad();
      ddp.pass([&] { return (a * (world.rank() + 1)).sum() + (step > 0 ? b.sum() * 0 : b.sum()); })
          .backward();
      EXPECT_TRUE(at::equal(a.grad(), torch::full({3}, 1.5)));
      if (step > 0) {
        EXPECT_EQ(a.grad().data_ptr(), memory);
      }
      memory = a.grad().data_ptr();
      sgd.step();
    }
    EXPECT_EQ(value(a[0]), 1 - 3 * 0.75f);
    {
      sgd.zero_grad();
      auto guard = ddp.no_sync();
      ddp.pass([&] { return (a * (world.rank() + 1)).sum(); }).backward();
    }
    ddp.pass([&] { return b.sum(); }).backward();  // a: used in the first half only
    EXPECT_TRUE(at::equal(a.grad(), torch::full({3}, 1.5)));
    EXPECT_TRUE(at::equal(b.grad(), torch::ones({2})));
  });
}

TEST(DdpUses, HooksFormAStack) {
  run_ranks(2, [](Communicator& world) {
    Tensor a = parameter({3}, 1), b = parameter({2}, 1);
    DistributedDataParallel ddp(NamedTensors{{"a", a}, {"b", b}}, {}, world,
                                DdpOptions().first_bucket_mb(1e-6).bucket_cap_mb(1e-6));
    std::vector<std::string> calls;
    ddp.register_comm_hook([&](GradBucket bucket, const NextCommHook& next) {
      calls.push_back("inner" + std::to_string(bucket.index) + (bucket.last ? "!" : ""));
      return next(std::move(bucket));
    });
    ddp.register_comm_hook([&](GradBucket bucket, const NextCommHook& next) {
      calls.push_back("outer");
      EXPECT_EQ(bucket.parameters.size(), 1u);
      bucket.tensor = bucket.tensor.to(at::kDouble);
      auto future = std::make_shared<GradFuture>(next(bucket));
      return GradFuture([future] { return future->wait().to(at::kFloat) * 2; });
    });
    ddp.pass([&] { return (a * (world.rank() + 1)).sum() + b.sum(); }).backward();
    EXPECT_EQ(calls, (std::vector<std::string>{"outer", "inner0", "outer", "inner1!"}));
    EXPECT_TRUE(at::equal(a.grad(), torch::full({3}, 3.0)));
    EXPECT_THROW(ddp.register_comm_hook({}), Error);
  });
}

TEST(DdpUses, StepTimesAndPlans) {
  run_ranks(2, [](Communicator& world) {
    Tensor w = parameter({1000}, 1);
    DistributedDataParallel ddp(NamedTensors{{"w", w}}, {}, world, DdpOptions().name("net"));
    ddp.pass([&] { return w.sum(); }).backward();
    const StepStats& stats = ddp.last_step();
    EXPECT_EQ(stats.step, 1u);
    EXPECT_GT(stats.backward_us, 0);
    EXPECT_GT(stats.exposed_us, 0);
    ASSERT_EQ(stats.buckets.size(), 1u);
    EXPECT_EQ(stats.buckets[0].name, "net.bucket0");
    EXPECT_EQ(stats.buckets[0].count, 1000u);
    EXPECT_GT(stats.buckets[0].measured_us, 0);
    EXPECT_FALSE(stats.buckets[0].plan.schedule.empty());
  });
}

struct Output {
  Tensor logits;
};
void visit_tensors(const Output& output, const TensorVisitor& visit) { visit(output.logits); }

TEST(Outputs, AreFoundInWhateverAForwardReturns) {
  int found = 0;
  const TensorVisitor count = [&](const Tensor&) { ++found; };
  const Tensor t = torch::ones({1});
  for_each_tensor(t, count);
  for_each_tensor(std::make_tuple(t, 3, std::vector<Tensor>{t, t}), count);
  EXPECT_EQ(found, 4);
  for_each_tensor(std::optional<Tensor>(t), count);
  for_each_tensor(std::optional<Tensor>(), count);
  for_each_tensor(std::map<std::string, std::pair<Tensor, double>>{{"a", {t, 1.0}}}, count);
  for_each_tensor(c10::optional<Tensor>(t), count);
  EXPECT_EQ(found, 7);
  for_each_tensor(Output{t}, count);
  for_each_tensor(std::string("none"), count);
  EXPECT_EQ(found, 8);
}

}  // namespace
}  // namespace syncline::torch_detail

// The situations in which a namespace syncline::torch would break users.
namespace syncline {
[[maybe_unused]] static torch::Tensor inside(const torch::Tensor& t) { return t + 1; }
}  // namespace syncline
namespace user {
using namespace syncline;
[[maybe_unused]] static torch::Tensor outside(torch::nn::Linear net, Communicator& world) {
  DistributedDataParallel ddp(net, world, DdpOptions().bucket_cap_mb(25));
  return ddp(torch::ones({1, 2}));
}
}  // namespace user
