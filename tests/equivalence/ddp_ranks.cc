// DistributedDataParallel over real processes: run by `syncline run`, on any transport. Trains N
// ranks on N parts of a batch with every all_reduce schedule, and the same model alone on the whole
// batch; exits 1, saying where, unless the parameters agree.
//
// Tolerance as in src/torch/ddp_convergence_test.cc: the batch's sum is only associated
// differently, which 50 steps with momentum 0.9 keep far below 1e-4 of the parameters. The exact
// model (f64, sums of small integers) has to agree bit for bit.
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <cstdio>
#include <functional>

#include "syncline/syncline.h"
#include "syncline/torch/ddp.h"

namespace {

using at::Tensor;
using Forward = std::function<Tensor(const Tensor&)>;

constexpr int kSteps = 50;
constexpr int kRows = 12;  // of the whole batch: divisible by 2, 3 and 4

struct CnnImpl : torch::nn::Module {
  CnnImpl() {
    torch::manual_seed(11);
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 3, 3)));
    fc = register_module("fc", torch::nn::Linear(3 * 6 * 6, 5));
  }
  Tensor forward(const Tensor& x) { return fc(torch::relu(conv(x)).flatten(1)); }
  torch::nn::Conv2d conv = nullptr;
  torch::nn::Linear fc = nullptr;
};

Tensor part(const Tensor& whole, int rank, int ranks) {
  return whole.narrow(0, rank * (kRows / ranks), kRows / ranks);
}

void train_cnn(CnnImpl& net, int rank, int ranks, const Forward& forward) {
  torch::optim::SGD sgd(net.parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  for (int step = 0; step < kSteps; ++step) {
    const Tensor images = torch::arange(kRows * 64, torch::kFloat).add(step * 17).mul(0.013).sin();
    const Tensor labels = torch::arange(kRows, torch::kLong).mul(7).add(step).remainder(5);
    sgd.zero_grad();
    const Tensor out = forward(part(images.view({kRows, 1, 8, 8}), rank, ranks));
    torch::nn::functional::cross_entropy(out, part(labels, rank, ranks)).backward();
    sgd.step();
  }
}

Tensor train_exact(Tensor w, int rank, int ranks, const Forward& forward) {
  torch::optim::SGD sgd({w}, torch::optim::SGDOptions(0x1p-10).momentum(0.5));
  for (int step = 0; step < kSteps; ++step) {
    const Tensor x = torch::arange(kRows * 6, torch::kDouble).mul(5).add(step).remainder(17).sub(8);
    sgd.zero_grad();
    forward(part(x.view({kRows, 6}), rank, ranks)).backward();
    sgd.step();
  }
  return w.detach();
}

Tensor initial() { return torch::ones({6}, torch::kDouble).requires_grad_(true); }

bool cnn_agrees(syncline::Communicator& world, const syncline::DdpOptions& options) {
  auto alone = std::make_shared<CnnImpl>();
  train_cnn(*alone, 0, 1, [&](const Tensor& x) { return alone->forward(x); });
  auto net = std::make_shared<CnnImpl>();
  syncline::DistributedDataParallel ddp(net, world, options);
  train_cnn(*net, world.rank(), world.size(), [&](const Tensor& x) { return ddp(x); });
  const auto expected = alone->parameters();
  const auto actual = net->parameters();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!at::allclose(actual[i], expected[i], 1e-4, 1e-5)) return false;
  }
  return true;
}

bool exact_agrees(syncline::Communicator& world, const syncline::DdpOptions& options) {
  Tensor w0 = initial();
  const Tensor alone = train_exact(w0, 0, 1, [&](const Tensor& x) { return x.mul(w0).sum(); });
  Tensor w = initial();
  syncline::DistributedDataParallel ddp({{"w", w}}, {}, world, options);
  ddp.set_samples(kRows / world.size());  // thirds are not exact, sample counts are
  const Tensor ours = train_exact(w, world.rank(), world.size(), [&](const Tensor& x) {
    return ddp.pass([&] { return x.mul(w).sum() * world.size(); });
  });
  return at::equal(ours, alone);
}

}  // namespace

int main() {
  try {
    torch::set_num_threads(1);
    syncline::Session session = syncline::init();
    syncline::Communicator& world = session.world();
    int failures = 0;
    for (const char* schedule : {"", "one_shot", "two_shot", "ring", "tree", "halving_doubling",
                                 "ring_bidirectional", "ring_meet", "double_tree", "star"}) {
      // Several buckets, so that order and slices matter.
      const auto options =
          syncline::DdpOptions().schedule(schedule).first_bucket_mb(1e-5).bucket_cap_mb(1e-3);
      const bool cnn = cnn_agrees(world, options);
      const bool exact = exact_agrees(world, options);
      if (!cnn || !exact) ++failures;
      std::printf("ranks %d schedule '%s': cnn %s, exact sums %s\n", world.size(), schedule,
                  cnn ? "agrees" : "DIFFERS", exact ? "bit-equal" : "DIFFER");
    }
    return failures == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
