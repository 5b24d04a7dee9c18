// Gradients of DistributedDataParallel, case by case (ids of the fault collection).
#include "syncline/torch/ddp.h"

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include "torch/test_ranks.h"
#include "torch/test_tensors.h"

namespace syncline::torch_detail {
namespace {

using at::Tensor;

// A loss whose gradient for `p` is `g` in every element.
Tensor loss_with_gradient(const Tensor& p, double g) { return (p * g).sum(); }

Tensor pass(DistributedDataParallel<void>& ddp, const Tensor& p, double g) {
  return ddp.pass([&] { return loss_with_gradient(p, g); });
}

// DDP-01
float run_uneven(Communicator& world, JoinDivisor divisor) {
  Tensor w = parameter({1}, 1.0);
  DistributedDataParallel ddp(NamedTensors{{"w", w}}, {}, world);
  torch::optim::SGD sgd({w}, torch::optim::SGDOptions(0.1));
  auto join = ddp.join(divisor);
  for (int i = 0; i < (world.rank() == 0 ? 3 : 5); ++i) {
    sgd.zero_grad();
    pass(ddp, w, 2.0).backward();
    sgd.step();
  }
  EXPECT_EQ(join.finish(), 1);
  return value(w);
}

TEST(Ddp01, JoinDividesByInitialWorldSize) {
  for (const float w : each_rank<float>(2, [](Communicator& world) {
         return run_uneven(world, JoinDivisor::kInitialWorldSize);
       })) {
    EXPECT_NEAR(w, 0.2, 1e-6);
  }
}

TEST(Ddp01, JoinDividesByActiveRanks) {
  for (const float w : each_rank<float>(
           2, [](Communicator& world) { return run_uneven(world, JoinDivisor::kActiveRanks); })) {
    EXPECT_NEAR(w, 0.0, 1e-6);
  }
}

TEST(Ddp01, JoinSurvivesARankWithoutAnyBatchAndAnUnusedForward) {
  run_ranks(3, [](Communicator& world) {
    Tensor w = parameter({1}, 1.0);
    DistributedDataParallel ddp(NamedTensors{{"w", w}}, {}, world);
    torch::optim::SGD sgd({w}, torch::optim::SGDOptions(0.5));
    {
      auto join = ddp.join();
      for (int i = 0; i < world.rank(); ++i) {
        sgd.zero_grad();
        pass(ddp, w, 3.0).backward();
        sgd.step();
      }
      if (world.rank() == 1) pass(ddp, w, 3.0);  // its loss is thrown away
    }
    // Step 1: (3 + 3) / 3 = 2, step 2: 3 / 3 = 1.
    EXPECT_EQ(value(w), -0.5f);
    sgd.zero_grad();
    pass(ddp, w, world.rank() + 1.0).backward();  // goes on as usual afterwards
    EXPECT_NEAR(value(w.grad()), 2.0, 1e-6);
  });
}

// DDP-02: gradients r0 = 1, 4; r1 = 2, 7.
struct Micro {
  Communicator& world;
  Tensor w = parameter({1}, 1.0);
  DistributedDataParallel<void> ddp{NamedTensors{{"w", w}}, {}, world};
  double first = world.rank() == 0 ? 1 : 2;
  double second = world.rank() == 0 ? 4 : 7;
};

TEST(Ddp02, AccumulationGivesTheMeanOfLocalSums) {
  run_ranks(2, [](Communicator& world) {
    {  // (a)
      Micro m{world};
      {
        auto guard = m.ddp.no_sync();
        pass(m.ddp, m.w, m.first).backward();
        EXPECT_EQ(value(m.w.grad()), m.first);
      }
      auto guard = m.ddp.sync_when(true);
      pass(m.ddp, m.w, m.second).backward();
      EXPECT_EQ(value(m.w.grad()), 7.0f);
    }
    {  // (b) only the forward inside
      Micro m{world};
      Tensor loss;
      {
        auto guard = m.ddp.no_sync();
        loss = pass(m.ddp, m.w, m.first);
      }
      loss.backward();
      pass(m.ddp, m.w, m.second).backward();
      EXPECT_EQ(value(m.w.grad()), 7.0f);
    }
    {  // (c) only the backward inside
      Micro m{world};
      Tensor loss = pass(m.ddp, m.w, m.first);
      {
        auto guard = m.ddp.no_sync();
        loss.backward();
      }
      pass(m.ddp, m.w, m.second).backward();
      EXPECT_EQ(value(m.w.grad()), 7.0f);
    }
    {  // (d) two forwards, two backwards
      Micro m{world};
      Tensor one = pass(m.ddp, m.w, m.first);
      Tensor two = pass(m.ddp, m.w, m.second);
      one.backward();
      two.backward();
      EXPECT_EQ(value(m.w.grad()), 7.0f);
    }
  });
}

// DDP-04
TEST(Ddp04, ParameterOutsideTheGraphStaysUntouchedAndEqual) {
  run_ranks(2, [](Communicator& world) {
    torch::manual_seed(world.rank());
    torch::nn::Linear a(3, 2), b(3, 2);
    DistributedDataParallel ddp(
        NamedTensors{{"a", a->weight}, {"a.bias", a->bias}, {"b", b->weight}, {"b.bias", b->bias}},
        {}, world);
    ddp.pass([&] { return a(torch::ones({1, 3}) * (world.rank() + 1)); }).sum().backward();
    EXPECT_FALSE(b->weight.grad().defined());
    EXPECT_TRUE(at::allclose(a->weight.grad(), torch::full({2, 3}, 1.5)));
  });
}

TEST(Ddp04, TwoForwardsOneBackward) {
  run_ranks(2, [](Communicator& world) {
    Tensor w = parameter({2}, 1.0);
    DistributedDataParallel ddp(NamedTensors{{"w", w}}, {}, world);
    Tensor one = pass(ddp, w, 1.0 + world.rank());
    Tensor two = pass(ddp, w, 10.0);
    (one + two).backward();
    EXPECT_TRUE(at::equal(w.grad(), torch::full({2}, 11.5)));
  });
}

// DDP-05
TEST(Ddp05, UnusedParametersAreNotMovedByMomentumOrDecay) {
  run_ranks(2, [](Communicator& world) {
    Tensor p = parameter({3}, 0.7), q = parameter({1}, 1.0), r = parameter({1}, 1.0);
    DistributedDataParallel ddp(NamedTensors{{"p", p}, {"q", q}, {"r", r}}, {}, world);
    torch::optim::SGD sgd({p, q, r}, torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(0.1));
    const Tensor before = p.detach().clone();
    for (int step = 0; step < 5; ++step) {
      sgd.zero_grad();
      ddp.pass([&] {
           Tensor loss = r.sum();
           return world.rank() == 0 ? loss + loss_with_gradient(q, 4.0) : loss;
         })
          .backward();
      EXPECT_EQ(value(q.grad()), 2.0f);
      EXPECT_FALSE(p.grad().defined());
      sgd.step();
    }
    EXPECT_TRUE(same_bits(p, before));
  });
}

// DDP-06
TEST(Ddp06, GradientsMeetByParameterNotByArrival) {
  run_ranks(2, [](Communicator& world) {
    Tensor p1 = parameter({4}, 1.0), p2 = parameter({4}, 1.0);
    // One element a bucket: the wrong order would mix the buckets.
    DistributedDataParallel ddp(NamedTensors{{"p1", p1}, {"p2", p2}}, {}, world,
                                DdpOptions().first_bucket_mb(1e-6).bucket_cap_mb(1e-6));
    for (int step = 0; step < 3; ++step) {
      p1.mutable_grad().reset();
      p2.mutable_grad().reset();
      ddp.pass([&] {
           // The parameter nearer to the loss is ready first.
           Tensor x = torch::zeros({4});
           const bool first = world.rank() == 0;
           x = (x + (first ? p2 * 10 : p1 * 3)).relu();
           return ((first ? p1 * 1 : p2 * 30) + x).sum();
         })
          .backward();
      EXPECT_TRUE(at::equal(p1.grad(), torch::full({4}, 2.0)));
      EXPECT_TRUE(at::equal(p2.grad(), torch::full({4}, 20.0)));
      EXPECT_EQ(ddp.last_step().buckets.size(), 2u);
    }
  });
}

// DDP-09
struct NormNetImpl : torch::nn::Module {
  NormNetImpl()
      : fc(register_module("fc", torch::nn::Linear(4, 3))),
        norm(register_module("norm", torch::nn::BatchNorm1d(3))) {}
  Tensor forward(const Tensor& x) { return norm(fc(x)); }
  torch::nn::Linear fc;
  torch::nn::BatchNorm1d norm;
};

Tensor norm_data(int rank, int which) {
  return torch::arange(20, torch::kFloat).view({5, 4}).mul(0.1 * (which + 1) * (rank + 1)).sin();
}

TEST(Ddp09, TwoForwardsThroughBatchNormBeforeOneBackward) {
  // Single process: gradients per rank's data, averaged.
  torch::manual_seed(3);
  auto reference = std::make_shared<NormNetImpl>();
  std::vector<Tensor> expected;
  for (int rank = 0; rank < 2; ++rank) {
    reference->zero_grad();
    (reference->forward(norm_data(rank, 0)).pow(2).sum() +
     reference->forward(norm_data(rank, 1)).pow(3).sum())
        .backward();
    std::size_t i = 0;
    for (const auto& p : reference->parameters()) {
      if (rank == 0)
        expected.push_back(p.grad() / 2);
      else
        expected[i] = expected[i] + p.grad() / 2;
      ++i;
    }
  }
  auto initial = reference;
  run_ranks(2, [&](Communicator& world) {
    auto net = std::make_shared<NormNetImpl>();
    {
      torch::NoGradGuard no_grad;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        net->parameters()[i].copy_(initial->parameters()[i]);
      }
    }
    DistributedDataParallel ddp(net, world);
    for (int step = 0; step < 3; ++step) {
      net->zero_grad();
      Tensor y1 = ddp(norm_data(world.rank(), 0));
      Tensor y2 = ddp(norm_data(world.rank(), 1));
      (y1.pow(2).sum() + y2.pow(3).sum()).backward();
      for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_TRUE(at::allclose(net->parameters()[i].grad(), expected[i], 1e-4, 1e-5));
      }
    }
  });
}

TEST(Ddp09, BuffersFollowRankZeroBeforeTheNextForward) {
  run_ranks(2, [&](Communicator& world) {
    auto net = std::make_shared<NormNetImpl>();
    DistributedDataParallel ddp(net, world);
    ddp(norm_data(world.rank(), 0)).sum().backward();
    const Tensor mine = net->norm->running_mean.clone();
    std::vector<float> all(6);
    world.all_gather(ConstTensorView(mine.data_ptr<float>(), 3), TensorView(all.data(), 6)).wait();
    EXPECT_NE(all[0], all[3]);
    net->norm->options.momentum(0.0);  // the next forward leaves statistics as they are
    ddp(norm_data(world.rank(), 1)).sum().backward();
    EXPECT_EQ(net->norm->running_mean[0].item<float>(), all[0]);
  });
}

// DDP-10
TEST(Ddp10, PlainMeanByDefaultAndPerSampleMeanWithWeights) {
  run_ranks(2, [](Communicator& world) {
    const bool first = world.rank() == 0;
    for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
      Tensor w = parameter({3}, 0.0, type);
      DistributedDataParallel ddp(NamedTensors{{"w", w}}, {}, world);
      pass(ddp, w, first ? 1.0 : 5.0).backward();
      EXPECT_TRUE(at::equal(w.grad(), torch::full({3}, 3.0, w.options())));
      w.mutable_grad().reset();
      ddp.set_samples(first ? 3 : 1);
      pass(ddp, w, first ? 1.0 : 5.0).backward();
      EXPECT_TRUE(at::equal(w.grad(), torch::full({3}, 2.0, w.options()))) << w.grad();
      w.mutable_grad().reset();
      ddp.set_samples(first ? 2 : 0);  // no samples left on rank 1
      pass(ddp, w, first ? 1.0 : std::nan("")).backward();
      EXPECT_TRUE(at::equal(w.grad(), torch::full({3}, 1.0, w.options()))) << w.grad();
    }
  });
}

TEST(Ddp10, AccumulatedMicroBatchesAddTheirSamples) {
  run_ranks(2, [](Communicator& world) {
    const bool first = world.rank() == 0;
    Tensor w = parameter({1}, 0.0);
    DistributedDataParallel ddp(NamedTensors{{"w", w}}, {}, world);
    // Rank 0: 3 + 1 samples with gradient 1; rank 1: 2 + 2 samples with gradient 5.
    const int counts[2] = {first ? 3 : 2, first ? 1 : 2};
    for (int micro = 0; micro < 2; ++micro) {
      auto guard = ddp.sync_when(micro == 1);
      ddp.set_samples(counts[micro]);
      pass(ddp, w, (first ? 1.0 : 5.0) * counts[micro] / 4).backward();
    }
    EXPECT_EQ(value(w.grad()), 3.0f);
  });
}

TEST(Ddp10, WeightsOnSomeRanksOnlyAreAnError) {
  run_ranks(2, [](Communicator& world) {
    Tensor w = parameter({1}, 0.0);
    DistributedDataParallel ddp(NamedTensors{{"w", w}}, {}, world);
    if (world.rank() == 0) ddp.set_samples(3);
    try {
      pass(ddp, w, 1.0).backward();
      ADD_FAILURE() << "no error";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kMismatch) << e.what();
    }
  });
}

// DDP-12
TEST(Ddp12, MemoryLayoutDoesNotMatter) {
  for (const bool bucket_view : {false, true}) {
    run_ranks(2, [&](Communicator& world) {
      const Tensor index = torch::arange(24, torch::kFloat).view({2, 3, 2, 2});
      Tensor w = torch::zeros({2, 3, 2, 2});
      if (world.rank() == 1) w = w.contiguous(at::MemoryFormat::ChannelsLast);
      w.requires_grad_(true);
      Tensor m = torch::zeros({3, 4}).t().requires_grad_(true);  // transposed on both
      Tensor c = torch::zeros({2, 3, 2, 2}).contiguous(at::MemoryFormat::ChannelsLast);
      c.requires_grad_(true);
      DistributedDataParallel ddp(NamedTensors{{"w", w}, {"m", m}, {"c", c}}, {}, world,
                                  DdpOptions().gradient_as_bucket_view(bucket_view));
      const Tensor rows = torch::arange(12, torch::kFloat).view({4, 3});
      const double factor = world.rank() == 0 ? 1 : 3;
      for (int step = 0; step < 2; ++step) {
        for (auto* p : {&w, &m, &c}) {
          if (p->grad().defined()) p->mutable_grad().zero_();
        }
        ddp.pass([&] { return ((w + c) * index * factor).sum() + (m * rows * factor).sum(); })
            .backward();
        EXPECT_TRUE(at::equal(w.grad(), index * 2)) << w.grad();
        EXPECT_TRUE(at::equal(c.grad(), index * 2));
        EXPECT_TRUE(at::equal(m.grad(), rows * 2));
      }
    });
  }
}

// DDP-13
TEST(Ddp13, DifferentInitialWeightsEndEqualAndLearn) {
  std::vector<Tensor> final = each_rank<Tensor>(2, [](Communicator& world) {
    Tensor w = parameter({1}, world.rank() == 0 ? 0.5 : 0.9);
    DistributedDataParallel ddp(NamedTensors{{"w", w}}, {}, world);
    EXPECT_EQ(value(w), 0.5f);
    torch::optim::SGD sgd({w}, torch::optim::SGDOptions(0.1));
    pass(ddp, w, world.rank() == 0 ? 2.0 : 4.0).backward();
    sgd.step();
    EXPECT_NEAR(value(w), 0.2, 1e-7);

    double first_loss = 0, last_loss = 0;
    for (int step = 0; step < 20; ++step) {
      const Tensor x = torch::linspace(0.1, 1.0, 8) + 0.05 * world.rank();
      sgd.zero_grad();
      Tensor loss = ddp.pass([&] { return (w * x * 2 - x * 4).pow(2).mean(); });
      (step == 0 ? first_loss : last_loss) = loss.item<double>();
      loss.backward();
      sgd.step();
    }
    EXPECT_LT(last_loss, 0.01 * first_loss);
    return w.detach().clone();
  });
  EXPECT_TRUE(same_bits(final[0], final[1]));
}

}  // namespace
}  // namespace syncline::torch_detail
