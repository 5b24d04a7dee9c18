#include "ps/update.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/assert.h"
#include "kernels/float_environment.h"
#include "ps/custom_update.h"
#include "ps/update_loops.h"

namespace syncline::ps {
namespace {

using optim::Kind;
using optim::Optimizer;

float f32(double value) { return static_cast<float>(value); }

bool has_moments(Kind kind) {
  return kind == Kind::kAdam || kind == Kind::kAdamW || kind == Kind::kLamb;
}

double bias(double beta, std::uint64_t step) {
  return 1 - std::pow(beta, static_cast<double>(step));
}

loops::LambNumbers lamb_numbers(const Optimizer& o, std::uint64_t step, double trust) {
  return {f32(1 / bias(o.beta1(), step)), f32(1 / bias(o.beta2(), step)), f32(o.eps()),
          f32(o.weight_decay()), f32(o.lr() * trust)};
}

void apply_adam(const Optimizer& o, std::uint64_t step, const Slice& slice) {
  const bool decoupled = o.kind() == Kind::kAdamW;
  const loops::AdamNumbers numbers{f32(decoupled ? 1 - o.lr() * o.weight_decay() : 1),
                                   f32(o.lr() / bias(o.beta1(), step)),
                                   f32(std::sqrt(bias(o.beta2(), step))), f32(o.eps())};
  loops::adam(slice.weights, slice.slots[0], slice.slots[1], slice.count, numbers);
}

void apply_rmsprop(const Optimizer& o, const Slice& slice) {
  std::size_t next = 1;
  float* mean = o.centered() ? slice.slots[next++] : nullptr;
  float* momentum = o.momentum() > 0 ? slice.slots[next] : nullptr;
  loops::rmsprop(slice.weights, slice.slots[0], mean, momentum, slice.gradient, slice.count,
                 {f32(o.lr()), f32(o.weight_decay()), f32(o.alpha()), f32(1 - o.alpha()),
                  f32(o.eps()), f32(o.momentum())});
}

void apply_sgd(const Optimizer& o, std::uint64_t step, const Slice& slice) {
  float* momentum = o.momentum() != 0 ? slice.slots[0] : nullptr;
  // The first step takes the gradient whole, whatever the dampening: LibTorch's rule.
  const double share = step == 1 ? 1 : 1 - o.dampening();
  loops::sgd(slice.weights, momentum, slice.gradient, slice.count,
             {f32(o.lr()), f32(o.weight_decay()), f32(o.momentum()), f32(share), o.nesterov()});
}

}  // namespace

Status check(const Optimizer& o) {
  const auto bad = [](const char* name, double value) {
    return Status(Code::kInvalidArgument,
                  "optimizer: " + std::string(name) + " = " + std::to_string(value) +
                      " is impossible; rates, decays and eps are finite and at least 0, betas and "
                      "alpha lie in [0, 1)");
  };
  const struct {
    const char* name;
    double value;
    double limit;  // exclusive
  } numbers[] = {{"lr", o.lr(), INFINITY},
                 {"weight_decay", o.weight_decay(), INFINITY},
                 {"momentum", o.momentum(), INFINITY},
                 {"dampening", o.dampening(), INFINITY},
                 {"beta1", o.beta1(), 1},
                 {"beta2", o.beta2(), 1},
                 {"eps", o.eps(), INFINITY},
                 {"alpha", o.alpha(), 1},
                 {"lr_decay", o.lr_decay(), INFINITY},
                 {"initial_accumulator", o.initial_accumulator(), INFINITY},
                 {"trust_coefficient", o.trust_coefficient(), INFINITY}};
  for (const auto& [name, value, limit] : numbers) {
    if (!(value >= 0 && value < limit)) return bad(name, value);
  }
  if (o.nesterov() && (o.momentum() == 0 || o.dampening() != 0)) {
    return Status(Code::kInvalidArgument,
                  "optimizer: Nesterov needs a momentum above 0 and no dampening");
  }
  return {};
}

Status check_known(const Optimizer& o) {
  if (o.kind() != Kind::kCustom || find_custom_update(o.custom_id()) != nullptr) return {};
  return Status(Code::kInvalidArgument,
                "optimizer: a server knows no update " + std::to_string(o.custom_id()) +
                    "; call optim::register_update() in each process that serves (syncline run "
                    "--server-program)");
}

std::size_t slot_count(const Optimizer& o) {
  switch (o.kind()) {
    case Kind::kSgd:
      return o.momentum() != 0 ? 1 : 0;
    case Kind::kAdam:
    case Kind::kAdamW:
    case Kind::kLamb:
      return 2;
    case Kind::kRmsprop:
      return 1 + (o.centered() ? 1 : 0) + (o.momentum() > 0 ? 1 : 0);
    case Kind::kAdagrad:
    case Kind::kLars:
    case Kind::kRowwiseAdagrad:
      return 1;
    case Kind::kCustom: {
      const auto update = find_custom_update(o.custom_id());
      return update == nullptr ? 0 : update->slots;
    }
  }
  return 0;
}

float initial_slot_value(const Optimizer& o) {
  if (const auto update = find_custom_update(o.custom_id()); o.kind() == Kind::kCustom) {
    return update == nullptr ? 0.0f : update->initial;
  }
  const bool sums = o.kind() == Kind::kAdagrad || o.kind() == Kind::kRowwiseAdagrad;
  return sums ? f32(o.initial_accumulator()) : 0.0f;
}

bool needs_norms(const Optimizer& o) { return o.kind() == Kind::kLars || o.kind() == Kind::kLamb; }

void advance(const Optimizer& o, std::uint64_t step, const Slice& slice,
             std::vector<SquareSums>& sums) {
  const syncline::kernels::FloatEnvironment environment;
  if (has_moments(o.kind())) {
    const double decay = o.kind() == Kind::kAdam ? o.weight_decay() : 0;
    loops::moments(
        slice.weights, slice.slots[0], slice.slots[1], slice.gradient, slice.count,
        {f32(decay), f32(o.beta1()), f32(o.beta2()), f32(1 - o.beta1()), f32(1 - o.beta2())});
  }
  if (!needs_norms(o)) return;
  for (std::size_t at = 0; at < slice.count; at += kNormPiece) {
    const std::size_t n = std::min(kNormPiece, slice.count - at);
    SquareSums piece;
    piece.weights = loops::square_sum(slice.weights + at, n);
    piece.update = o.kind() == Kind::kLars
                       ? loops::square_sum(slice.gradient + at, n)
                       : loops::lamb_square_sum(slice.weights + at, slice.slots[0] + at,
                                                slice.slots[1] + at, n, lamb_numbers(o, step, 1));
    sums.push_back(piece);
  }
}

double trust_ratio(const Optimizer& o, std::span<const SquareSums> sums) {
  if (!needs_norms(o)) return 1;
  SquareSums all;
  for (const SquareSums& each : sums) {
    all.weights += each.weights;
    all.update += each.update;
  }
  const double weights = std::sqrt(all.weights);
  const double update = std::sqrt(all.update);
  // A tensor that is still zero, or whose gradient is, takes the plain rate.
  if (weights == 0 || update == 0) return 1;
  if (o.kind() == Kind::kLamb) return weights / update;
  return o.trust_coefficient() * weights / (update + o.weight_decay() * weights);
}

void apply(const Optimizer& o, std::uint64_t step, double trust, const Slice& slice) {
  const syncline::kernels::FloatEnvironment environment;
  switch (o.kind()) {
    case Kind::kSgd:
      return apply_sgd(o, step, slice);
    case Kind::kAdam:
    case Kind::kAdamW:
      return apply_adam(o, step, slice);
    case Kind::kLamb:
      return loops::lamb(slice.weights, slice.slots[0], slice.slots[1], slice.count,
                         lamb_numbers(o, step, trust));
    case Kind::kRmsprop:
      return apply_rmsprop(o, slice);
    case Kind::kAdagrad: {
      const double slowed = o.lr() / (1 + static_cast<double>(step - 1) * o.lr_decay());
      return loops::adagrad(slice.weights, slice.slots[0], slice.gradient, slice.count,
                            {f32(slowed), f32(o.weight_decay()), f32(o.eps())});
    }
    case Kind::kLars:
      return loops::lars(slice.weights, slice.slots[0], slice.gradient, slice.count,
                         {f32(o.lr() * trust), f32(o.weight_decay()), f32(o.momentum())});
    case Kind::kCustom:
      find_custom_update(o.custom_id())
          ->update(o, step, slice.count, slice.weights, slice.slots.data(), slice.gradient);
      return;
    case Kind::kRowwiseAdagrad:
      break;
  }
  SYNCLINE_ASSERT(false, "row-wise optimizers update rows of tables");
}

void update_row(const Optimizer& o, float* weights, float& sum, const float* gradient,
                std::size_t count) {
  SYNCLINE_ASSERT(o.kind() == Kind::kRowwiseAdagrad && count > 0, "a row of a table");
  const syncline::kernels::FloatEnvironment environment;
  sum += f32(loops::square_sum(gradient, count) / static_cast<double>(count));
  const float rate = f32(o.lr()) / (std::sqrt(sum) + f32(o.eps()));
  loops::sgd(weights, nullptr, gradient, count, {rate, f32(o.weight_decay()), 0, 1, false});
}

}  // namespace syncline::ps
