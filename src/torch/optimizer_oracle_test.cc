// The store's optimisers against LibTorch's: the same weights after 50 steps, within the rounding
// that another order of operations makes.
#include <gtest/gtest.h>
#include <torch/optim.h>

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ps/update.h"

namespace syncline {
namespace {

using OfTorch = std::function<std::unique_ptr<torch::optim::Optimizer>(const torch::Tensor&)>;

struct Pair {
  std::string name;
  optim::Optimizer ours;
  OfTorch theirs;
};

template <class Optimizer, class Options>
OfTorch make(Options options) {
  return [options](const torch::Tensor& parameter) -> std::unique_ptr<torch::optim::Optimizer> {
    return std::make_unique<Optimizer>(std::vector<torch::Tensor>{parameter}, options);
  };
}

std::vector<Pair> pairs() {
  using namespace torch::optim;
  return {
      {"sgd", optim::Sgd(0.1).weight_decay(0.01), make<SGD>(SGDOptions(0.1).weight_decay(0.01))},
      {"dampened", optim::Sgd(0.1).momentum(0.9).dampening(0.3),
       make<SGD>(SGDOptions(0.1).momentum(0.9).dampening(0.3))},
      {"nesterov", optim::Sgd(0.1).momentum(0.9).nesterov(true),
       make<SGD>(SGDOptions(0.1).momentum(0.9).nesterov(true))},
      {"adam", optim::Adam(1e-2).weight_decay(0.01),
       make<Adam>(AdamOptions(1e-2).weight_decay(0.01))},
      {"adamw", optim::AdamW(1e-2), make<AdamW>(AdamWOptions(1e-2))},
      {"adagrad", optim::Adagrad(0.1).lr_decay(0.01).initial_accumulator(0.1),
       make<Adagrad>(AdagradOptions(0.1).lr_decay(0.01).initial_accumulator_value(0.1))},
      {"rmsprop", optim::Rmsprop(1e-3).centered(true).momentum(0.9).weight_decay(0.01),
       make<RMSprop>(RMSpropOptions(1e-3).centered(true).momentum(0.9).weight_decay(0.01))}};
}

class OptimizerOracle : public testing::TestWithParam<Pair> {};

TEST_P(OptimizerOracle, AgreesWithLibTorch) {
  constexpr std::size_t kCount = 1000;
  constexpr std::uint64_t kSteps = 50;
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> weights(kCount), gradient(kCount);
  for (float& w : weights) w = normal(random);

  torch::Tensor parameter =
      torch::from_blob(weights.data(), {static_cast<int64_t>(kCount)}).clone().requires_grad_();
  const auto theirs = GetParam().theirs(parameter);

  const optim::Optimizer& ours = GetParam().ours;
  std::vector<float> slots[ps::kSlotsMax];
  ps::Slice slice{kCount, weights.data(), {}, gradient.data()};
  for (std::size_t k = 0; k < ps::kSlotsMax; ++k) {
    slots[k].assign(kCount, ps::initial_slot_value(ours));
    slice.slots[k] = slots[k].data();
  }
  std::vector<ps::SquareSums> sums;
  for (std::uint64_t step = 1; step <= kSteps; ++step) {
    for (float& g : gradient) g = normal(random);
    parameter.mutable_grad() =
        torch::from_blob(gradient.data(), {static_cast<int64_t>(kCount)}).clone();
    theirs->step();
    ps::advance(ours, step, slice, sums);
    ps::apply(ours, step, 1, slice);
  }
  const float* expected = parameter.data_ptr<float>();
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_NEAR(weights[i], expected[i], 2e-6 + 2e-6 * std::abs(expected[i])) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, OptimizerOracle, testing::ValuesIn(pairs()),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace syncline
