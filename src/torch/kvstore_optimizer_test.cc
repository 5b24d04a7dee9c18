// KVStoreOptimizer: the store trains as LibTorch's optimiser does on the whole batch.
#include "syncline/torch/kvstore_optimizer.h"

#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <functional>
#include <thread>
#include <vector>

#include "syncline/session.h"

namespace syncline {
namespace {

namespace nn = ::torch::nn;

nn::Sequential seeded_net() {
  ::torch::manual_seed(3);
  return nn::Sequential(nn::Linear(20, 300), nn::Linear(300, 5));
}

struct Data {
  at::Tensor x, y;
};
Data part_of(int rank, int ranks, int step) {
  ::torch::manual_seed(100 + step);
  const at::Tensor x = at::randn({8 * ranks, 20}), y = at::randn({8 * ranks, 5});
  return {x.narrow(0, 8 * rank, 8), y.narrow(0, 8 * rank, 8)};
}

std::vector<at::Tensor> train_alone(int ranks, int steps) {
  auto net = seeded_net();
  ::torch::optim::SGD sgd(net->parameters(), ::torch::optim::SGDOptions(0.05).momentum(0.9));
  for (int step = 0; step < steps; ++step) {
    ::torch::manual_seed(100 + step);
    const at::Tensor x = at::randn({8 * ranks, 20}), y = at::randn({8 * ranks, 5});
    sgd.zero_grad();
    nn::functional::mse_loss(net->forward(x), y).backward();
    sgd.step();
  }
  return net->parameters();
}

// Nets and data are made before the threads start: they share one random generator.
void on_workers(int workers, const std::function<void(Session&, nn::Sequential&)>& body) {
  std::vector<Session> sessions = init_threads(workers);
  std::vector<std::thread> threads;
  for (Session& each : sessions) {
    threads.emplace_back(
        [&body, session = std::move(each), net = seeded_net()]() mutable { body(session, net); });
  }
  for (auto& thread : threads) thread.join();
}

TEST(KVStoreOptimizer, TrainsAsOneWorkerOnTheWholeBatch) {
  constexpr int kWorkers = 3, kSteps = 20;
  const auto expected = train_alone(kWorkers, kSteps);
  std::vector<std::vector<Data>> parts(kSteps);
  for (int step = 0; step < kSteps; ++step) {
    for (int w = 0; w < kWorkers; ++w) parts[step].push_back(part_of(w, kWorkers, step));
  }
  on_workers(kWorkers, [&](Session& session, nn::Sequential& net) {
    KVStore kv = session.kvstore(KVStoreOptions().reduce(Reduce::kMeanBySamples));
    KVStoreOptimizer optimizer(kv, *net, optim::Sgd(0.05).momentum(0.9));
    for (const auto& step : parts) {
      const Data& part = step[static_cast<std::size_t>(session.rank())];
      optimizer.wait();
      optimizer.set_samples(8);
      nn::functional::mse_loss(net->forward(part.x), part.y).backward();
      optimizer.step();
      optimizer.zero_grad();
    }
    optimizer.wait();
    const auto parameters = net->parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      EXPECT_TRUE(at::allclose(parameters[i], expected[i], 1e-4, 1e-5)) << i;
    }
  });
}

TEST(KVStoreOptimizer, ASecondBackwardBeforeStepIsAnError) {
  const Data part = part_of(0, 1, 0);
  on_workers(1, [&](Session& session, nn::Sequential& net) {
    KVStore kv = session.kvstore();
    KVStoreOptimizer optimizer(kv, *net, optim::Sgd(0.05));
    const auto backward = [&] {
      nn::functional::mse_loss(net->forward(part.x), part.y).backward();
    };
    optimizer.set_sync(false);
    backward();
    optimizer.set_sync(true);
    backward();
    EXPECT_THROW(backward(), Error);
    optimizer.step();
    optimizer.wait();
  });
}

}  // namespace
}  // namespace syncline
