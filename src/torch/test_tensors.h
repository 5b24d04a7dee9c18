// Parameters with known values, for tests.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace syncline::torch_detail {

inline at::Tensor parameter(std::vector<std::int64_t> shape, double value,
                            at::ScalarType type = at::kFloat) {
  return torch::full(shape, value, torch::TensorOptions().dtype(type)).requires_grad_(true);
}

inline float value(const at::Tensor& t) { return t.item<float>(); }

}  // namespace syncline::torch_detail
