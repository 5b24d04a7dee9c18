// Reduction and conversion kernels: pure, thread-safe, no allocation. Highway with runtime
// dispatch.
//
// Rules (see syncline/types.h): any NaN gives the canonical quiet NaN, so every operation commutes
// bit for bit; -0 < +0 in min and max; integers wrap. Kernels save MXCSR, clear flush-to-zero and
// denormals-are-zero, and restore it.
#pragma once

#include <cstddef>

#include "syncline/types.h"

namespace syncline::kernels {

// Partial results of f16 and bf16 are f32; every other type accumulates in itself.
constexpr DType accumulate_type(DType type) {
  return type == DType::kF16 || type == DType::kBF16 ? DType::kF32 : type;
}

// False for (bool, average) and for bit operations on floats.
bool is_supported(DType type, ReduceOp op);

// Memory that holds either elements of the tensor's type or partial results (accumulate type).
struct Operand {
  const void* data;
  bool accumulator;
};
struct Target {
  void* data;
  bool accumulator;
};

// dst[i] = a[i] op b[i] for i < count. dst.data may equal a.data or b.data if the widths agree, but
// not overlap partly. `divisor` > 0 finishes an average: the result is divided by it (floats in the
// accumulate type, integers toward zero); 0 leaves it. kAverage reduces like kSum.
void reduce(DType type, ReduceOp op, Target dst, Operand a, Operand b, std::size_t count,
            int divisor = 0);

// dst[i] = a[i], widened or rounded (nearest even) as the widths demand, divided as above. bool
// results are normalised to 0 or 1.
void copy(DType type, Target dst, Operand a, std::size_t count, int divisor = 0);

// dst[i] = a[i] * factor in the accumulate type (f64 for f64), rounded once. Float types only.
void scale(DType type, void* dst, const void* a, std::size_t count, double factor);

// Name of the instruction set chosen at run time, e.g. "AVX2".
const char* target_name();

}  // namespace syncline::kernels
