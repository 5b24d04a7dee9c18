// From torch tensors to TensorViews, with the checks that say clearly what is not supported.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

#include "syncline/tensor_view.h"

namespace syncline::torch_detail {

// nullopt: a type that collectives do not know (complex, quantised).
std::optional<DType> to_dtype(at::ScalarType type);
at::ScalarType to_scalar_type(DType type);

// "[10, 20]"
std::string shape_text(at::IntArrayRef sizes);

// Throws kUnsupported unless the tensor is on the CPU, strided and of a known type. `what` begins
// the message: "all_reduce", "DistributedDataParallel: parameter 'fc.weight'".
void require_dense_cpu(const at::Tensor& tensor, const std::string& what);

// All elements of a contiguous tensor.
TensorView view_of(const at::Tensor& contiguous);

}  // namespace syncline::torch_detail
