// DataParallel equals one worker on the whole batch.
#include "syncline/torch/data_parallel.h"

#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/serialize/input-archive.h>
#include <torch/serialize/output-archive.h>

#include <algorithm>
#include <sstream>

#include "syncline/torch/distributed_sampler.h"
#include "syncline/torch/metrics.h"
#include "torch/test_ranks.h"

namespace syncline::torch_detail {
namespace {

using at::Tensor;
namespace F = torch::nn::functional;

struct MlpImpl : torch::nn::Cloneable<MlpImpl> {
  MlpImpl() { reset(); }
  void reset() override {
    one = register_module("one", torch::nn::Linear(6, 8));
    two = register_module("two", torch::nn::Linear(8, 3));
    spare = register_module("spare", torch::nn::Linear(2, 2));  // never used
  }
  Tensor forward(const Tensor& x) { return two(torch::relu(one(x))); }
  torch::nn::Linear one = nullptr, two = nullptr, spare = nullptr;
};
TORCH_MODULE(Mlp);

struct Problem {
  Tensor x = torch::arange(66, torch::kFloat).view({11, 6}).mul(0.37).sin();
  Tensor y = torch::arange(33, torch::kFloat).view({11, 3}).mul(0.11).cos();
};

template <class Step>
std::vector<Tensor> train(MlpImpl& net, const Step& step) {
  torch::optim::SGD sgd(net.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  for (int i = 0; i < 20; ++i) {
    sgd.zero_grad();
    step();
    sgd.step();
  }
  std::vector<Tensor> result;
  for (const auto& p : net.parameters()) result.push_back(p.detach().clone());
  return result;
}

std::vector<Tensor> train_alone(const Problem& data) {
  torch::manual_seed(1);
  Mlp net;
  return train(*net, [&] { F::mse_loss(net(data.x), data.y).backward(); });
}

void expect_close(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(at::allclose(a[i], b[i], 1e-4, 1e-6));
}

TEST(DataParallel, ForwardAndBackwardEqualOneWorker) {
  const Problem data;
  const auto expected = train_alone(data);
  for (const int threads : {1, 2, 3, 16}) {  // 16: more threads than rows
    torch::manual_seed(1);
    Mlp net;
    DataParallel dp(net, threads);
    expect_close(train(*net, [&] { F::mse_loss(dp(data.x), data.y).backward(); }), expected);
    EXPECT_FALSE(net->spare->weight.grad().defined());
  }
}

TEST(DataParallel, LossInsideTheThreadsEqualsOneWorker) {
  const Problem data;
  const auto expected = train_alone(data);
  torch::manual_seed(1);
  Mlp net;
  DataParallel dp(net, 3);
  Tensor loss;
  expect_close(train(*net,
                     [&] {
                       loss =
                           dp.backward([](MlpImpl& m, const Tensor& x,
                                          const Tensor& y) { return F::mse_loss(m.forward(x), y); },
                                       data.x, data.y);
                     }),
               expected);
  EXPECT_GT(loss.item<float>(), 0);
}

TEST(DataParallel, InputGradientsAccumulationAndInference) {
  const Problem data;
  torch::manual_seed(1);
  Mlp net;
  DataParallel dp(net, 2);
  Tensor x1 = data.x.clone().requires_grad_(true), x2 = data.x.clone().requires_grad_(true);
  F::mse_loss(net(x1), data.y).backward();
  const Tensor once = net->one->weight.grad().clone();
  F::mse_loss(dp(x2), data.y).backward();  // adds to what is there
  EXPECT_TRUE(at::allclose(net->one->weight.grad(), once * 2, 1e-4, 1e-6));
  EXPECT_TRUE(at::allclose(x1.grad(), x2.grad(), 1e-4, 1e-7));
  torch::NoGradGuard no_grad;
  EXPECT_TRUE(at::allclose(dp(data.x), net(data.x)));
  EXPECT_FALSE(dp(data.x).requires_grad());
}

TEST(DataParallel, AThrowingReplicaLeavesGradientsAndWorksAfterwards) {
  const Problem data;
  Mlp net;
  DataParallel dp(net, 3);
  const auto loss = [](MlpImpl& m, const Tensor& x) { return m.forward(x).pow(2).mean(); };
  dp.backward(loss, data.x);
  const Tensor before = net->one->weight.grad().clone();
  EXPECT_THROW(dp.backward(
                   [](MlpImpl& m, const Tensor& x) {
                     if (x.size(0) == 3) throw std::runtime_error("bad sample");
                     return m.forward(x).pow(2).mean();
                   },
                   data.x),
               std::runtime_error);
  EXPECT_TRUE(same_bits(net->one->weight.grad(), before));
  dp.backward(loss, data.x);
  EXPECT_TRUE(at::allclose(net->one->weight.grad(), before * 2, 1e-4, 1e-6));
}

TEST(TorchSampler, EverySampleOnceAndResumesFromAnArchive) {
  const auto parts = each_rank<std::vector<std::size_t>>(3, [](Communicator& world) {
    data::SamplerOptions options;
    options.seed = 5;
    options.padding = false;
    TorchDistributedSampler sampler(10, world, options);
    sampler.set_epoch(2);
    std::vector<std::size_t> seen = *sampler.next(1);
    torch::serialize::OutputArchive saved;
    sampler.save(saved);
    std::stringstream bytes;
    saved.save_to(bytes);
    torch::serialize::InputArchive archive;
    archive.load_from(bytes);
    TorchDistributedSampler resumed(10, world, options);
    resumed.load(archive);
    resumed.reset(c10::nullopt);
    EXPECT_EQ(resumed.epoch(), 2u);
    while (auto batch = resumed.next(2)) seen.insert(seen.end(), batch->begin(), batch->end());
    return seen;
  });
  std::vector<std::size_t> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, (std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(Metrics, MeanOverSamplesNotOverRanks) {
  run_ranks(3, [](Communicator& world) {
    MetricReducer metrics({"loss", "correct"});
    for (int i = 0; i < world.rank(); ++i) metrics.add("loss", 3.0 * world.rank(), 2);
    metrics.add("correct", world.rank(), 5);
    const auto all = metrics.reduce(world);
    EXPECT_EQ(all[0].sum, 3 + 12);
    EXPECT_EQ(all[0].count, 6);
    EXPECT_EQ(all[0].mean(), 2.5);
    EXPECT_EQ(all[1].count, 15);
    EXPECT_THROW(metrics.add("lose", 1, 1), Error);
    EXPECT_EQ(metrics.reduce(world)[0].count, 0);  // started again
  });
}

}  // namespace
}  // namespace syncline::torch_detail
