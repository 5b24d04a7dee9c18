#include "ps/update_loops.h"

#include <cmath>

namespace syncline::ps::loops {
namespace {

// Independent partial sums: a fixed order that a vector register can keep.
constexpr std::size_t kLanes = 8;

template <class Value>
double sum_of_squares(std::size_t n, const Value& value) {
  double lanes[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::size_t k = 0; k < kLanes; ++k) {
      const double x = value(i + k);
      lanes[k] += x * x;
    }
  }
  for (std::size_t k = 0; i < n; ++i, ++k) {
    const double x = value(i);
    lanes[k] += x * x;
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

float lamb_step(float w, float m, float v, const LambNumbers& x) {
  return m * x.scale1 / (std::sqrt(v * x.scale2) + x.eps) + x.weight_decay * w;
}

}  // namespace

void sgd(float* __restrict w, float* __restrict momentum, const float* __restrict g, std::size_t n,
         const SgdNumbers& numbers) {
  const SgdNumbers x = numbers;
  if (momentum == nullptr) {
    for (std::size_t i = 0; i < n; ++i) w[i] -= x.lr * (g[i] + x.weight_decay * w[i]);
  } else if (x.nesterov) {
    for (std::size_t i = 0; i < n; ++i) {
      const float d = g[i] + x.weight_decay * w[i];
      const float m = x.momentum * momentum[i] + x.gradient_share * d;
      momentum[i] = m;
      w[i] -= x.lr * (d + x.momentum * m);
    }
  } else {
    for (std::size_t i = 0; i < n; ++i) {
      const float m = x.momentum * momentum[i] + x.gradient_share * (g[i] + x.weight_decay * w[i]);
      momentum[i] = m;
      w[i] -= x.lr * m;
    }
  }
}

void moments(const float* __restrict w, float* __restrict m, float* __restrict v,
             const float* __restrict g, std::size_t n, const MomentNumbers& numbers) {
  const MomentNumbers x = numbers;
  for (std::size_t i = 0; i < n; ++i) {
    const float d = g[i] + x.weight_decay * w[i];
    m[i] = x.beta1 * m[i] + x.share1 * d;
    v[i] = x.beta2 * v[i] + x.share2 * (d * d);
  }
}

void adam(float* __restrict w, const float* __restrict m, const float* __restrict v, std::size_t n,
          const AdamNumbers& numbers) {
  const AdamNumbers x = numbers;
  for (std::size_t i = 0; i < n; ++i) {
    w[i] = w[i] * x.keep - x.rate * (m[i] / (std::sqrt(v[i]) / x.root + x.eps));
  }
}

void adagrad(float* __restrict w, float* __restrict sum, const float* __restrict g, std::size_t n,
             const AdagradNumbers& numbers) {
  const AdagradNumbers x = numbers;
  for (std::size_t i = 0; i < n; ++i) {
    const float d = g[i] + x.weight_decay * w[i];
    sum[i] += d * d;
    w[i] -= x.rate * (d / (std::sqrt(sum[i]) + x.eps));
  }
}

void rmsprop(float* __restrict w, float* __restrict square, float* __restrict mean,
             float* __restrict momentum, const float* __restrict g, std::size_t n,
             const RmspropNumbers& numbers) {
  const RmspropNumbers x = numbers;
  for (std::size_t i = 0; i < n; ++i) {
    const float d = g[i] + x.weight_decay * w[i];
    square[i] = x.alpha * square[i] + x.share * (d * d);
    float spread = square[i];
    if (mean != nullptr) {
      mean[i] = x.alpha * mean[i] + x.share * d;
      spread -= mean[i] * mean[i];
    }
    float step = d / (std::sqrt(spread) + x.eps);
    if (momentum != nullptr) {
      momentum[i] = x.momentum * momentum[i] + step;
      step = momentum[i];
    }
    w[i] -= x.lr * step;
  }
}

void lars(float* __restrict w, float* __restrict momentum, const float* __restrict g, std::size_t n,
          const LarsNumbers& numbers) {
  const LarsNumbers x = numbers;
  for (std::size_t i = 0; i < n; ++i) {
    const float m = x.momentum * momentum[i] + x.rate * (g[i] + x.weight_decay * w[i]);
    momentum[i] = m;
    w[i] -= m;
  }
}

void lamb(float* __restrict w, const float* __restrict m, const float* __restrict v, std::size_t n,
          const LambNumbers& numbers) {
  const LambNumbers x = numbers;
  for (std::size_t i = 0; i < n; ++i) w[i] -= x.rate * lamb_step(w[i], m[i], v[i], x);
}

double square_sum(const float* x, std::size_t n) {
  return sum_of_squares(n, [x](std::size_t i) { return static_cast<double>(x[i]); });
}

double lamb_square_sum(const float* w, const float* m, const float* v, std::size_t n,
                       const LambNumbers& numbers) {
  const LambNumbers x = numbers;
  return sum_of_squares(
      n, [&](std::size_t i) { return static_cast<double>(lamb_step(w[i], m[i], v[i], x)); });
}

}  // namespace syncline::ps::loops
