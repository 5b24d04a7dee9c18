// Vectors as tensors.
#pragma once

#include <cstdint>
#include <vector>

#include "syncline/tensor_view.h"

namespace syncline::store {

using Ids = std::vector<std::int64_t>;

inline TensorView view(std::vector<float>& values) { return {values.data(), values.size()}; }
inline ConstTensorView view(const Ids& ids) { return {ids.data(), ids.size()}; }

}  // namespace syncline::store
