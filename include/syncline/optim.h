// Optimisers that a key-value store applies to its weights: a kind and numbers, so that they travel
// to servers. Formulas and defaults are LibTorch's where it has the kind.
#ifndef SYNCLINE_OPTIM_H_
#define SYNCLINE_OPTIM_H_

#include <cstddef>
#include <cstdint>
#include <functional>

namespace syncline {
namespace optim {

// The numeric values travel on the wire: never renumber.
enum class Kind : std::uint8_t {
  kSgd = 1,
  kAdam = 2,
  kAdamW = 3,
  kAdagrad = 4,
  kRmsprop = 5,
  kLars = 6,
  kLamb = 7,
  kRowwiseAdagrad = 8,  // tables only
  kCustom = 9,          // register_update()
};

// Value. Setters of numbers that the kind does not use have no effect.
class Optimizer {
 public:
  Kind kind() const { return kind_; }

  double lr() const { return lr_; }
  Optimizer& lr(double v) { return lr_ = v, *this; }
  // L2 for most kinds: added to the gradient as weight_decay * weight. Decoupled for AdamW and
  // LAMB.
  double weight_decay() const { return weight_decay_; }
  Optimizer& weight_decay(double v) { return weight_decay_ = v, *this; }

  // -- Sgd, Rmsprop, Lars
  double momentum() const { return momentum_; }
  Optimizer& momentum(double v) { return momentum_ = v, *this; }
  // -- Sgd
  double dampening() const { return dampening_; }
  Optimizer& dampening(double v) { return dampening_ = v, *this; }
  bool nesterov() const { return nesterov_; }
  Optimizer& nesterov(bool v) { return nesterov_ = v, *this; }

  // -- Adam, AdamW, Lamb
  double beta1() const { return beta1_; }
  double beta2() const { return beta2_; }
  Optimizer& betas(double first, double second) { return beta1_ = first, beta2_ = second, *this; }
  // -- all but Sgd: added to a denominator
  double eps() const { return eps_; }
  Optimizer& eps(double v) { return eps_ = v, *this; }

  // -- Rmsprop: decay of the running square, and whether the running mean is taken off it
  double alpha() const { return alpha_; }
  Optimizer& alpha(double v) { return alpha_ = v, *this; }
  bool centered() const { return centered_; }
  Optimizer& centered(bool v) { return centered_ = v, *this; }

  // -- Adagrad: lr / (1 + (step - 1) * lr_decay)
  double lr_decay() const { return lr_decay_; }
  Optimizer& lr_decay(double v) { return lr_decay_ = v, *this; }
  // -- Adagrad, RowwiseAdagrad: where the sums of squares start
  double initial_accumulator() const { return initial_accumulator_; }
  Optimizer& initial_accumulator(double v) { return initial_accumulator_ = v, *this; }

  // -- Custom
  std::uint32_t custom_id() const { return custom_id_; }
  Optimizer& custom_id(std::uint32_t v) { return custom_id_ = v, *this; }

  // -- Lars
  double trust_coefficient() const { return trust_coefficient_; }
  Optimizer& trust_coefficient(double v) { return trust_coefficient_ = v, *this; }

 protected:
  Optimizer(Kind kind, double lr, double eps) : kind_(kind), lr_(lr), eps_(eps) {}

  Kind kind_;
  bool nesterov_ = false;
  bool centered_ = false;
  double lr_;
  double weight_decay_ = 0;
  double momentum_ = 0;
  double dampening_ = 0;
  double beta1_ = 0.9;
  double beta2_ = 0.999;
  double eps_;
  double alpha_ = 0.99;
  double lr_decay_ = 0;
  double initial_accumulator_ = 0;
  double trust_coefficient_ = 0.001;
  std::uint32_t custom_id_ = 0;
};

// Stochastic gradient descent, with momentum and Nesterov's on request.
struct Sgd : Optimizer {
  explicit Sgd(double lr) : Optimizer(Kind::kSgd, lr, 0) {}
};
// Kingma and Ba, 2015.
struct Adam : Optimizer {
  explicit Adam(double lr = 1e-3) : Optimizer(Kind::kAdam, lr, 1e-8) {}
};
// Loshchilov and Hutter, 2019.
struct AdamW : Optimizer {
  explicit AdamW(double lr = 1e-3) : Optimizer(Kind::kAdamW, lr, 1e-8) { weight_decay_ = 1e-2; }
};
// Duchi, Hazan and Singer, 2011.
struct Adagrad : Optimizer {
  explicit Adagrad(double lr = 1e-2) : Optimizer(Kind::kAdagrad, lr, 1e-10) {}
};
// Tieleman and Hinton, 2012; centered: Graves, 2013.
struct Rmsprop : Optimizer {
  explicit Rmsprop(double lr = 1e-2) : Optimizer(Kind::kRmsprop, lr, 1e-8) {}
};
// Momentum with a rate per tensor, trust_coefficient * |w| / (|g| + weight_decay * |w|): You,
// Gitman and Ginsburg, 2017.
struct Lars : Optimizer {
  explicit Lars(double lr) : Optimizer(Kind::kLars, lr, 0) { momentum_ = 0.9; }
};
// Adam with a rate per tensor, |w| / |update|: You et al., 2020.
struct Lamb : Optimizer {
  explicit Lamb(double lr = 1e-3) : Optimizer(Kind::kLamb, lr, 1e-6) { weight_decay_ = 1e-2; }
};
// Adagrad with one sum for each row of a table, of the mean squares of its gradients.
struct RowwiseAdagrad : Optimizer {
  explicit RowwiseAdagrad(double lr = 1e-2) : Optimizer(Kind::kRowwiseAdagrad, lr, 1e-8) {}
};

// One step of `count` weights: a slice of a tensor, or a row. `slots`: as many arrays of `count`
// f32 as the update keeps; `step` counts from 1. The optimiser brings its numbers. What becomes of
// a weight may depend on its own gradient and slots alone, since tensors are cut into slices.
using UpdateFunction =
    std::function<void(const Optimizer& optimizer, std::uint64_t step, std::size_t count,
                       float* weights, float* const* slots, const float* gradient)>;

// Makes Custom(id) known to this process, before serve() or the first store: in each process that
// keeps values, so in the workers, or in a program of yours that calls serve() (`syncline run
// --servers N --server-program FILE`); to save or load a store also in worker 0. Again with the
// same id: replaces it. `slots`: at most 3, `initial` is what they hold before the first step.
// Called by servers' threads. Thread-safe. kInvalidArgument: no function, or too many slots.
void register_update(std::uint32_t id, UpdateFunction update, std::size_t slots = 0,
                     float initial = 0);

// What register_update() made known.
struct Custom : Optimizer {
  explicit Custom(std::uint32_t id, double lr = 1e-3) : Optimizer(Kind::kCustom, lr, 1e-8) {
    custom_id_ = id;
  }
};

}  // namespace optim
}  // namespace syncline

#endif  // SYNCLINE_OPTIM_H_
