#include "torch/dense.h"

#include <sstream>

#include "base/assert.h"
#include "syncline/status.h"

namespace syncline::torch_detail {

std::optional<DType> to_dtype(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return DType::kF32;
    case at::kDouble:
      return DType::kF64;
    case at::kHalf:
      return DType::kF16;
    case at::kBFloat16:
      return DType::kBF16;
    case at::kChar:
      return DType::kI8;
    case at::kByte:
      return DType::kU8;
    case at::kShort:
      return DType::kI16;
    case at::kInt:
      return DType::kI32;
    case at::kLong:
      return DType::kI64;
    case at::kBool:
      return DType::kBool;
    default:
      return std::nullopt;
  }
}

at::ScalarType to_scalar_type(DType type) {
  for (const auto candidate : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kChar,
                               at::kByte, at::kShort, at::kInt, at::kLong}) {
    if (to_dtype(candidate) == type) return candidate;
  }
  return at::kBool;
}

std::string shape_text(at::IntArrayRef sizes) {
  std::ostringstream out;
  out << '[';
  for (std::size_t i = 0; i < sizes.size(); ++i) out << (i ? ", " : "") << sizes[i];
  out << ']';
  return out.str();
}

namespace {

[[noreturn]] void unsupported(const std::string& message) {
  throw Error(Status(Code::kUnsupported, message));
}

}  // namespace

void require_dense_cpu(const at::Tensor& tensor, const std::string& what) {
  if (!tensor.defined()) {
    throw Error(Status(Code::kInvalidArgument, what + ": the tensor is undefined"));
  }
  if (!tensor.device().is_cpu()) {
    unsupported(what + " is on " + tensor.device().str() +
                "; this build exchanges CPU tensors only: move it with .to(torch::kCPU)");
  }
  if (tensor.layout() != at::kStrided) {
    unsupported(what + " is not dense; exchange tensor.to_dense() or use a dense layer");
  }
  if (!to_dtype(tensor.scalar_type())) {
    unsupported(what + " has type " + c10::toString(tensor.scalar_type()) +
                "; known types are f32, f64, f16, bf16, i8, u8, i16, i32, i64, bool");
  }
}

TensorView view_of(const at::Tensor& contiguous) {
  SYNCLINE_ASSERT(contiguous.is_contiguous(), "a view needs contiguous memory");
  return {contiguous.data_ptr(), static_cast<std::size_t>(contiguous.numel()),
          *to_dtype(contiguous.scalar_type())};
}

}  // namespace syncline::torch_detail
