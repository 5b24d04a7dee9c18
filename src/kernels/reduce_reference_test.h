// Slow, obvious arithmetic that the kernels are compared with.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/half.h"
#include "syncline/types.h"

namespace syncline::kernels::reference {

template <class T>
T combine(ReduceOp op, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
    const bool a_first = a < b || (a == b && std::signbit(a));
    T result = a + b;
    if (op == ReduceOp::kMin) result = a_first ? a : b;
    if (op == ReduceOp::kMax) result = a_first ? b : a;
    if (op == ReduceOp::kProduct) result = a * b;
    return std::isnan(result) ? std::numeric_limits<T>::quiet_NaN() : result;
  } else {
    const auto x = static_cast<std::uint64_t>(a);
    const auto y = static_cast<std::uint64_t>(b);
    switch (op) {
      case ReduceOp::kMin:
        return a < b ? a : b;
      case ReduceOp::kMax:
        return a < b ? b : a;
      case ReduceOp::kProduct:
        return static_cast<T>(x * y);
      case ReduceOp::kBitAnd:
        return static_cast<T>(x & y);
      case ReduceOp::kBitOr:
        return static_cast<T>(x | y);
      case ReduceOp::kBitXor:
        return static_cast<T>(x ^ y);
      default:
        return static_cast<T>(x + y);
    }
  }
}

// bool has a type of its own here, so that combine() cannot take it for u8.
inline std::uint8_t combine_bool(ReduceOp op, std::uint8_t a, std::uint8_t b) {
  const bool x = a != 0;
  const bool y = b != 0;
  if (op == ReduceOp::kBitXor) return x != y;
  const bool all = op == ReduceOp::kMin || op == ReduceOp::kProduct || op == ReduceOp::kBitAnd;
  return all ? x && y : x || y;
}

template <class T>
T divided(T value, int divisor) {
  if (divisor == 0) return value;
  if constexpr (std::is_floating_point_v<T>) {
    const T result = value / static_cast<T>(divisor);
    return std::isnan(result) ? std::numeric_limits<T>::quiet_NaN() : result;
  } else {
    return static_cast<T>(static_cast<std::int64_t>(value) / divisor);
  }
}

template <class T>
void native(ReduceOp op, void* dst, const void* a, const void* b, int divisor) {
  T x;
  T y;
  std::memcpy(&x, a, sizeof x);
  std::memcpy(&y, b, sizeof y);
  const T result = divided(combine(op, x, y), divisor);
  std::memcpy(dst, &result, sizeof result);
}

inline void half(DType type, ReduceOp op, void* dst, const void* a, const void* b, int divisor) {
  std::uint16_t x;
  std::uint16_t y;
  std::memcpy(&x, a, sizeof x);
  std::memcpy(&y, b, sizeof y);
  const bool f16 = type == DType::kF16;
  const float wide = divided(combine(op, f16 ? f16_to_float(x) : bf16_to_float(x),
                                     f16 ? f16_to_float(y) : bf16_to_float(y)),
                             divisor);
  const std::uint16_t result = f16 ? float_to_f16(wide) : float_to_bf16(wide);
  std::memcpy(dst, &result, sizeof result);
}

// One element: dst = (a op b) / divisor, in the element type throughout.
inline void element(DType type, ReduceOp op, void* dst, const void* a, const void* b, int divisor) {
  switch (type) {
    case DType::kF32:
      return native<float>(op, dst, a, b, divisor);
    case DType::kF64:
      return native<double>(op, dst, a, b, divisor);
    case DType::kF16:
    case DType::kBF16:
      return half(type, op, dst, a, b, divisor);
    case DType::kI8:
      return native<std::int8_t>(op, dst, a, b, divisor);
    case DType::kU8:
      return native<std::uint8_t>(op, dst, a, b, divisor);
    case DType::kI16:
      return native<std::int16_t>(op, dst, a, b, divisor);
    case DType::kI32:
      return native<std::int32_t>(op, dst, a, b, divisor);
    case DType::kI64:
      return native<std::int64_t>(op, dst, a, b, divisor);
    case DType::kBool: {
      const auto* x = static_cast<const std::uint8_t*>(a);
      const auto* y = static_cast<const std::uint8_t*>(b);
      *static_cast<std::uint8_t*>(dst) = combine_bool(op, *x, *y);
      return;
    }
  }
}

}  // namespace syncline::kernels::reference
