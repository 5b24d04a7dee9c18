// The loops against a scalar oracle written from the papers' formulas, bit for bit, whole and in
// any cut. The comparison with LibTorch is in src/torch/optimizer_oracle_test.cc.
#include "ps/update.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace syncline::ps {
namespace {

using optim::Kind;
using optim::Optimizer;

float f32_of(double x) { return static_cast<float>(x); }

// One weight of one step in scalar f32; `s` are its slots. Volatile keeps each operation apart.
float sgd_step(const Optimizer& o, std::uint64_t step, float w, float* s, float d) {
  volatile float a = 0, b = 0;
  if (o.momentum() == 0) {
    a = f32_of(o.lr()) * d;
    return w - a;
  }
  a = f32_of(o.momentum()) * s[0];
  b = f32_of(step == 1 ? 1 : 1 - o.dampening()) * d;
  s[0] = a + b;
  b = f32_of(o.momentum()) * s[0];
  b = d + b;
  if (!o.nesterov()) b = s[0];
  b = f32_of(o.lr()) * b;
  return w - b;
}

float adam_step(const Optimizer& o, std::uint64_t step, double trust, float w, float* s, float d) {
  const double bias1 = 1 - std::pow(o.beta1(), static_cast<double>(step));
  const double bias2 = 1 - std::pow(o.beta2(), static_cast<double>(step));
  volatile float a = f32_of(o.beta1()) * s[0];
  volatile float b = f32_of(1 - o.beta1()) * d;
  s[0] = a + b;
  a = f32_of(o.beta2()) * s[1];
  b = d * d;
  b = f32_of(1 - o.beta2()) * b;
  s[1] = a + b;
  if (o.kind() == Kind::kLamb) {
    a = s[0] * f32_of(1 / bias1);
    b = s[1] * f32_of(1 / bias2);
    b = std::sqrt(b);
    b = b + f32_of(o.eps());
    a = a / b;
    b = f32_of(o.weight_decay()) * w;
    a = a + b;
    a = f32_of(o.lr() * trust) * a;
    return w - a;
  }
  a = std::sqrt(s[1]);
  a = a / f32_of(std::sqrt(bias2));
  a = a + f32_of(o.eps());
  b = s[0] / a;
  b = f32_of(o.lr() / bias1) * b;
  a = w * f32_of(o.kind() == Kind::kAdamW ? 1 - o.lr() * o.weight_decay() : 1);
  return a - b;
}

float rmsprop_step(const Optimizer& o, float w, float* s, float d) {
  volatile float a = d * d;
  a = f32_of(1 - o.alpha()) * a;
  volatile float b = f32_of(o.alpha()) * s[0];
  s[0] = b + a;
  volatile float spread = s[0];
  if (o.centered()) {
    a = f32_of(1 - o.alpha()) * d;
    b = f32_of(o.alpha()) * s[1];
    s[1] = b + a;
    a = s[1] * s[1];
    spread = spread - a;
  }
  a = std::sqrt(spread);
  a = a + f32_of(o.eps());
  a = d / a;
  if (o.momentum() > 0) {
    float& momentum = s[o.centered() ? 2 : 1];
    b = f32_of(o.momentum()) * momentum;
    momentum = b + a;
    a = momentum;
  }
  a = f32_of(o.lr()) * a;
  return w - a;
}

float adagrad_step(const Optimizer& o, std::uint64_t step, float w, float* s, float d) {
  volatile float a = d * d;
  s[0] = s[0] + a;
  a = std::sqrt(s[0]);
  a = a + f32_of(o.eps());
  a = d / a;
  a = f32_of(o.lr() / (1 + static_cast<double>(step - 1) * o.lr_decay())) * a;
  return w - a;
}

float lars_step(const Optimizer& o, double trust, float w, float* s, float d) {
  volatile float a = f32_of(o.momentum()) * s[0];
  volatile float b = f32_of(o.lr() * trust) * d;
  s[0] = a + b;
  return w - s[0];
}

float scalar_step(const Optimizer& o, std::uint64_t step, double trust, float w, float* s,
                  float gradient) {
  volatile float decay = f32_of(o.weight_decay()) * w;
  volatile float d = gradient + decay;
  switch (o.kind()) {
    case Kind::kSgd:
      return sgd_step(o, step, w, s, d);
    case Kind::kAdam:
      return adam_step(o, step, trust, w, s, d);
    case Kind::kAdamW:
    case Kind::kLamb:
      return adam_step(o, step, trust, w, s, gradient + 0.0f * w);
    case Kind::kAdagrad:
      return adagrad_step(o, step, w, s, d);
    case Kind::kRmsprop:
      return rmsprop_step(o, w, s, d);
    case Kind::kLars:
      return lars_step(o, trust, w, s, d);
    case Kind::kCustom:
    case Kind::kRowwiseAdagrad:
      break;
  }
  return w;
}

struct Tensor {
  Tensor(std::size_t n, const Optimizer& o, unsigned seed) : weights(n), gradient(n) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (float& w : weights) w = normal(random);
    for (auto& slot : slots) slot.assign(n, initial_slot_value(o));
  }
  void draw_gradient(unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (float& g : gradient) g = normal(random);
  }
  Slice slice(std::size_t begin, std::size_t count) {
    Slice out{count, &weights[begin], {}, &gradient[begin]};
    for (std::size_t k = 0; k < kSlotsMax; ++k) out.slots[k] = &slots[k][begin];
    return out;
  }
  std::vector<float> weights, gradient, slots[kSlotsMax];
};

// Steps of one tensor, cut at the given places; the trust ratios that were used.
std::vector<double> run(Tensor& tensor, const Optimizer& o, int steps,
                        const std::vector<std::size_t>& cuts) {
  std::vector<double> ratios;
  for (int step = 1; step <= steps; ++step) {
    tensor.draw_gradient(static_cast<unsigned>(step));
    std::vector<SquareSums> sums;
    const auto t = static_cast<std::uint64_t>(step);
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      advance(o, t, tensor.slice(cuts[i], cuts[i + 1] - cuts[i]), sums);
    }
    ratios.push_back(trust_ratio(o, sums));
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      apply(o, t, ratios.back(), tensor.slice(cuts[i], cuts[i + 1] - cuts[i]));
    }
  }
  return ratios;
}

struct Named {
  std::string name;
  Optimizer optimizer;
};

std::vector<Named> all() {
  return {{"sgd", optim::Sgd(0.1)},
          {"sgd_decay", optim::Sgd(0.1).weight_decay(0.01)},
          {"momentum", optim::Sgd(0.1).momentum(0.9).weight_decay(0.01)},
          {"dampened", optim::Sgd(0.1).momentum(0.9).dampening(0.3)},
          {"nesterov", optim::Sgd(0.1).momentum(0.9).nesterov(true)},
          {"adam", optim::Adam()},
          {"adam_decay", optim::Adam(3e-3).weight_decay(0.1).betas(0.8, 0.99)},
          {"adamw", optim::AdamW()},
          {"adagrad", optim::Adagrad(0.1).lr_decay(0.01).initial_accumulator(0.1)},
          {"rmsprop", optim::Rmsprop()},
          {"rmsprop_all", optim::Rmsprop().centered(true).momentum(0.9).weight_decay(0.01)},
          {"lars", optim::Lars(0.1).weight_decay(1e-4)},
          {"lamb", optim::Lamb()}};
}

class EveryOptimizer : public testing::TestWithParam<Named> {};

TEST_P(EveryOptimizer, EqualsTheScalarFormulaBitForBit) {
  constexpr std::size_t kCount = 1003;
  const Optimizer& o = GetParam().optimizer;
  Tensor tensor(kCount, o, 1);
  Tensor expected = tensor;
  const std::vector<double> ratios = run(tensor, o, 20, {0, kCount});
  for (int step = 1; step <= 20; ++step) {
    expected.draw_gradient(static_cast<unsigned>(step));
    for (std::size_t i = 0; i < kCount; ++i) {
      float slots[kSlotsMax];
      for (std::size_t k = 0; k < kSlotsMax; ++k) slots[k] = expected.slots[k][i];
      expected.weights[i] = scalar_step(o, static_cast<std::uint64_t>(step),
                                        ratios[static_cast<std::size_t>(step - 1)],
                                        expected.weights[i], slots, expected.gradient[i]);
      for (std::size_t k = 0; k < kSlotsMax; ++k) expected.slots[k][i] = slots[k];
    }
  }
  EXPECT_EQ(tensor.weights, expected.weights);
  for (std::size_t k = 0; k < slot_count(o); ++k) EXPECT_EQ(tensor.slots[k], expected.slots[k]);
}

TEST_P(EveryOptimizer, GivesTheSameBitsForEveryCut) {
  constexpr std::size_t kCount = 30 * kNormPiece + 1003;
  const Optimizer& o = GetParam().optimizer;
  Tensor whole(kCount, o, 1);
  const std::vector<double> ratios = run(whole, o, 3, {0, kCount});
  std::vector<std::vector<std::size_t>> all_cuts = {
      {0, kNormPiece, kCount}, {0, kNormPiece, 2 * kNormPiece, 3 * kNormPiece, kCount}};
  if (!needs_norms(o)) all_cuts.push_back({0, 1, 2, 17, 20000, kCount});
  for (const auto& cuts : all_cuts) {
    Tensor cut(kCount, o, 1);
    EXPECT_EQ(run(cut, o, 3, cuts), ratios);
    EXPECT_EQ(cut.weights, whole.weights);
  }
}

TEST_P(EveryOptimizer, IgnoresTheCallersFloatEnvironment) {
  const Optimizer& o = GetParam().optimizer;
  Tensor tensor(64, o, 1);
  Tensor other = tensor;
  for (float& w : tensor.weights) w *= 1e-38f;  // denormal steps
  other.weights = tensor.weights;
  run(tensor, o, 3, {0, 64});
#if defined(__SSE__)
  const unsigned saved = _mm_getcsr();
  _mm_setcsr(saved | 0x8040);
  run(other, o, 3, {0, 64});
  _mm_setcsr(saved);
  EXPECT_EQ(tensor.weights, other.weights);
#endif
}

TEST_P(EveryOptimizer, DescendsASimpleBowl) {
  Optimizer o = GetParam().optimizer;
  if (o.kind() != Kind::kLars) o.lr(std::max(o.lr(), 0.02));
  Tensor tensor(16, o, 5);
  const auto loss = [&] {
    double sum = 0;
    for (const float w : tensor.weights) sum += static_cast<double>(w) * w;
    return sum;
  };
  const double before = loss();
  for (std::uint64_t step = 1; step <= 300; ++step) {
    tensor.gradient = tensor.weights;
    std::vector<SquareSums> sums;
    advance(o, step, tensor.slice(0, 16), sums);
    apply(o, step, trust_ratio(o, sums), tensor.slice(0, 16));
  }
  EXPECT_LT(loss(), 0.8 * before);
}

INSTANTIATE_TEST_SUITE_P(All, EveryOptimizer, testing::ValuesIn(all()),
                         [](const auto& param) { return param.param.name; });

TEST(Lars, TakesThePapersRate) {
  const Optimizer o = optim::Lars(0.5).momentum(0).weight_decay(0.1);
  const SquareSums sums[] = {{9, 4}, {16, 12}};  // |w| = 5, |g| = 4
  EXPECT_DOUBLE_EQ(trust_ratio(o, sums), 0.001 * 5 / (4 + 0.1 * 5));
}

TEST(Lamb, TakesThePapersRateAndThePlainOneForZero) {
  const Optimizer o = optim::Lamb();
  const SquareSums sums[] = {{9, 4}, {16, 12}};
  EXPECT_DOUBLE_EQ(trust_ratio(o, sums), 5.0 / 4.0);
  const SquareSums zero[] = {{0, 4}};
  EXPECT_EQ(trust_ratio(o, zero), 1);
}

TEST(RowwiseAdagrad, KeepsOneSumARow) {
  const Optimizer o = optim::RowwiseAdagrad(0.5);
  EXPECT_EQ(slot_count(o), 1u);
  float weights[] = {1, 2, 3, 4};
  const float gradient[] = {1, -1, 2, -2};  // mean square 2.5
  float sum = 1.5f;
  update_row(o, weights, sum, gradient, 4);
  EXPECT_EQ(sum, 4.0f);
  const float rate = 0.5f / (2.0f + 1e-8f);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(weights[i], static_cast<float>(i + 1) - rate * gradient[i]);
}

TEST(Check, NamesWhatIsImpossible) {
  EXPECT_TRUE(check(optim::Adam()).ok());
  EXPECT_NE(check(optim::Adam(-1)).message().find("lr"), std::string::npos);
  EXPECT_NE(check(optim::Adam().betas(1, 0.9)).message().find("beta1"), std::string::npos);
  EXPECT_NE(check(optim::Sgd(NAN)).message().find("lr"), std::string::npos);
  EXPECT_FALSE(check(optim::Sgd(0.1).nesterov(true)).ok());
  EXPECT_FALSE(check(optim::Sgd(0.1).momentum(0.9).dampening(0.1).nesterov(true)).ok());
}

}  // namespace
}  // namespace syncline::ps
