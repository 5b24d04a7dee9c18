// N workers with batch b hold the same parameters as one worker with batch N*b after 50 steps.
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <mutex>

#include "syncline/torch/ddp.h"
#include "torch/test_ranks.h"

namespace syncline::torch_detail {
namespace {

using at::Tensor;
namespace F = torch::nn::functional;

constexpr int kSteps = 50;
constexpr int kRows = 12;  // of the whole batch: divisible by 2, 3 and 4

struct SmallCnnImpl : torch::nn::Module {
  SmallCnnImpl() {
    // Ranks are threads and LibTorch's generator is one for all of them.
    static std::mutex one_at_a_time;
    const std::lock_guard<std::mutex> lock(one_at_a_time);
    torch::manual_seed(11);
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 3, 3)));
    fc = register_module("fc", torch::nn::Linear(3 * 6 * 6, 5));
  }
  Tensor forward(const Tensor& x) { return fc(torch::relu(conv(x)).flatten(1)); }
  torch::nn::Conv2d conv = nullptr;
  torch::nn::Linear fc = nullptr;
};

Tensor images(int step) {
  return torch::arange(kRows * 64, torch::kFloat)
      .add(step * 17)
      .mul(0.013)
      .sin()
      .view({kRows, 1, 8, 8});
}

Tensor labels(int step) { return torch::arange(kRows, torch::kLong).mul(7).add(step).remainder(5); }

Tensor part(const Tensor& whole, int rank, int ranks) {
  return whole.narrow(0, rank * (kRows / ranks), kRows / ranks);
}

template <class Forward>
void train_cnn(SmallCnnImpl& net, int rank, int ranks, const Forward& forward) {
  torch::optim::SGD sgd(net.parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  for (int step = 0; step < kSteps; ++step) {
    sgd.zero_grad();
    F::cross_entropy(forward(part(images(step), rank, ranks)), part(labels(step), rank, ranks))
        .backward();
    sgd.step();
  }
}

std::vector<Tensor> values(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> result;
  for (const auto& p : parameters) result.push_back(p.detach().clone());
  return result;
}

const std::vector<Tensor>& cnn_alone() {
  static const std::vector<Tensor> result = [] {
    SmallCnnImpl net;
    train_cnn(net, 0, 1, [&](const Tensor& x) { return net.forward(x); });
    return values(net.parameters());
  }();
  return result;
}

struct Case {
  int ranks;
  std::string schedule;
};

class Convergence : public testing::TestWithParam<Case> {};

DdpOptions options_of(const Case& c) {
  // Several buckets, so that order and slices matter.
  return DdpOptions().schedule(c.schedule).first_bucket_mb(1e-5).bucket_cap_mb(1e-3);
}

// f32 with rounding: the sum over the batch is only associated differently, so each step's gradient
// differs by a few ulp (6e-8 relative) and 50 steps with momentum 0.9 (amplification at most 10 a
// step, contraction near the optimum) stay far below 1e-4 of the parameters' scale, about 0.1 to 1.
TEST_P(Convergence, CnnWithinRounding) {
  const Case& c = GetParam();
  const auto all = each_rank<std::vector<Tensor>>(c.ranks, [&](Communicator& world) {
    auto net = std::make_shared<SmallCnnImpl>();
    DistributedDataParallel ddp(net, world, options_of(c));
    train_cnn(*net, world.rank(), c.ranks, [&](const Tensor& x) { return ddp(x); });
    return values(net->parameters());
  });
  for (std::size_t i = 0; i < cnn_alone().size(); ++i) {
    EXPECT_TRUE(at::allclose(all[0][i], cnn_alone()[i], 1e-4, 1e-5));
    for (const auto& rank : all) EXPECT_TRUE(same_bits(rank[i], all[0][i]));
  }
}

// f64 with a loss that is a sum of small integers: every gradient, and its share of a power-of-two
// learning rate, is exact, so any order of addition gives the same bits. The factor `ranks` undoes
// the mean; for three ranks 1/3 is not exact, so weights in place of the mean keep it so.
Tensor train_exact(int rank, int ranks,
                   const std::function<Tensor(const std::function<Tensor()>&)>& pass,
                   const Tensor& w) {
  torch::optim::SGD sgd({w}, torch::optim::SGDOptions(0x1p-10).momentum(0.5));
  for (int step = 0; step < kSteps; ++step) {
    sgd.zero_grad();
    const Tensor x = torch::arange(kRows * 6, torch::kDouble)
                         .mul(5)
                         .add(step)
                         .remainder(17)
                         .sub(8)
                         .view({kRows, 6});
    pass([&] { return part(x, rank, ranks).mul(w).sum(); }).backward();
    sgd.step();
  }
  return w.detach().clone();
}

TEST_P(Convergence, ExactSumsAreEqualBitForBit) {
  const Case& c = GetParam();
  const auto initial = [] { return torch::ones({6}, torch::kDouble).requires_grad_(true); };
  const Tensor alone = train_exact(
      0, 1, [](const auto& f) { return f(); }, initial());
  const auto all = each_rank<Tensor>(c.ranks, [&](Communicator& world) {
    Tensor w = initial();
    DistributedDataParallel ddp(NamedTensors{{"w", w}}, {}, world, options_of(c));
    ddp.set_samples(kRows / c.ranks);
    return train_exact(
        world.rank(), c.ranks,
        [&](const auto& f) { return ddp.pass([&] { return f() * c.ranks; }); }, w);
  });
  for (const auto& w : all) EXPECT_TRUE(same_bits(w, alone)) << w << alone;
}

std::vector<Case> cases() {
  std::vector<Case> result;
  for (const int ranks : {2, 3, 4}) {
    for (const char* schedule : {"", "one_shot", "two_shot", "ring", "tree", "halving_doubling",
                                 "ring_bidirectional", "ring_meet", "double_tree", "star"}) {
      result.push_back({ranks, schedule});
    }
  }
  return result;
}

INSTANTIATE_TEST_SUITE_P(All, Convergence, testing::ValuesIn(cases()), [](const auto& instance) {
  const Case& c = instance.param;
  return std::to_string(c.ranks) + "_" + (c.schedule.empty() ? "planner" : c.schedule);
});

}  // namespace
}  // namespace syncline::torch_detail
