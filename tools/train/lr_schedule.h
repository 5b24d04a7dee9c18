// LrSchedule: the learning rate of each step.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

namespace syncline::tools {

// Immutable. Rises linearly from peak / 25 to peak, then falls to nearly nothing along half a
// cosine (Smith and Topin 2017, "Super-Convergence", in the form of PyTorch's OneCycleLR), in a
// straight line, or not at all.
class LrSchedule {
 public:
  // warmup: part of `steps` in which the rate rises, 0 .. 1. shape: "cosine", "linear", "constant".
  LrSchedule(double peak, std::int64_t steps, double warmup, std::string shape)
      : peak_(peak),
        steps_(std::max<std::int64_t>(steps, 1)),
        rising_(static_cast<std::int64_t>(warmup * static_cast<double>(steps_))),
        shape_(std::move(shape)) {}

  // Of optimiser step `step`, counted from 0; steps past the end keep the last rate.
  double at(std::int64_t step) const {
    if (step < rising_) return peak_ * mix(kFirst, 1.0, part(step, rising_));
    const double done = part(step - rising_, steps_ - rising_);
    if (shape_ == "constant") return peak_;
    if (shape_ == "linear") return peak_ * mix(1.0, kLast, done);
    return peak_ * mix(kLast, 1.0, 0.5 * (1 + std::cos(kPi * done)));
  }

 private:
  static constexpr double kPi = 3.14159265358979323846;
  static constexpr double kFirst = 1.0 / 25;
  static constexpr double kLast = 1e-4;

  static double mix(double from, double to, double how_far) { return from + (to - from) * how_far; }
  static double part(std::int64_t done, std::int64_t all) {
    if (all <= 1) return all <= 0 || done >= 1 ? 1.0 : 0.0;
    return std::min(1.0, static_cast<double>(done) / static_cast<double>(all - 1));
  }

  double peak_;
  std::int64_t steps_;
  std::int64_t rising_;
  std::string shape_;
};

}  // namespace syncline::tools
