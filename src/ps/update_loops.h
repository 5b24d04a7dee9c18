// Inner loops of the optimisers. Private to ps/update. Every number is f32; operations are in the
// order in which they are written, in no wider type and never fused.
#pragma once

#include <cstddef>

namespace syncline::ps::loops {

struct SgdNumbers {
  float lr, weight_decay, momentum, gradient_share;  // gradient_share: 1 - dampening
  bool nesterov;
};
// `momentum` may be null: plain steps.
void sgd(float* w, float* momentum, const float* g, std::size_t n, const SgdNumbers& x);

// Running mean and square of g + weight_decay * w.
struct MomentNumbers {
  float weight_decay, beta1, beta2, share1, share2;  // share: 1 - beta
};
void moments(const float* w, float* m, float* v, const float* g, std::size_t n,
             const MomentNumbers& x);
// w = w * keep - rate * (m / (sqrt(v) / root + eps)).
struct AdamNumbers {
  float keep, rate, root, eps;
};
void adam(float* w, const float* m, const float* v, std::size_t n, const AdamNumbers& x);

struct AdagradNumbers {
  float rate, weight_decay, eps;
};
void adagrad(float* w, float* sum, const float* g, std::size_t n, const AdagradNumbers& x);

struct RmspropNumbers {
  float lr, weight_decay, alpha, share, eps, momentum;
};
// `mean` null: not centered; `momentum` null: none.
void rmsprop(float* w, float* square, float* mean, float* momentum, const float* g, std::size_t n,
             const RmspropNumbers& x);

// momentum = x.momentum * momentum + rate * (g + weight_decay * w); w -= momentum.
struct LarsNumbers {
  float rate, weight_decay, momentum;
};
void lars(float* w, float* momentum, const float* g, std::size_t n, const LarsNumbers& x);

// step = m * scale1 / (sqrt(v * scale2) + eps) + weight_decay * w; w -= rate * step.
struct LambNumbers {
  float scale1, scale2, eps, weight_decay, rate;
};
void lamb(float* w, const float* m, const float* v, std::size_t n, const LambNumbers& x);

// Sums of squares, f64, in an order that the length alone decides.
double square_sum(const float* x, std::size_t n);
double lamb_square_sum(const float* w, const float* m, const float* v, std::size_t n,
                       const LambNumbers& x);

}  // namespace syncline::ps::loops
