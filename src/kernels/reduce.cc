#include "kernels/reduce.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/assert.h"
#include "kernels/float_environment.h"
#include "kernels/kernel_table.h"

namespace syncline::kernels {
namespace {

// Elements per block where a second pass follows: small enough to stay in the L1 cache.
constexpr std::size_t kBlock = 1024;

constexpr int at(DType type) { return static_cast<int>(type); }
constexpr bool is_half(DType type) { return accumulate_type(type) != type; }

const char* offset(const void* data, std::size_t elements, std::size_t width) {
  return static_cast<const char*>(data) + elements * width;
}
char* offset(void* data, std::size_t elements, std::size_t width) {
  return static_cast<char*>(data) + elements * width;
}

std::size_t width_of(DType type, bool accumulator) {
  return size_of(accumulator ? accumulate_type(type) : type);
}

// `count` elements of a 16-bit operand from `start` on as f32: in place or widened into `block`.
const void* as_f32(DType type, Operand from, std::size_t start, std::size_t count, float* block) {
  const char* data = offset(from.data, start, width_of(type, from.accumulator));
  if (from.accumulator) return data;
  kernel_table().widen[at(type)](block, data, count);
  return block;
}

// Not inlined: its blocks would burden the stack frame of every small call.
[[gnu::noinline]] void reduce_half(DType type, BinaryKernel f32_kernel, Target dst, Operand a,
                                   Operand b, std::size_t count, int divisor) {
  const KernelTable& table = kernel_table();
  float left[kBlock];
  float right[kBlock];
  for (std::size_t start = 0; start < count; start += kBlock) {
    const std::size_t n = std::min(kBlock, count - start);
    const void* x = as_f32(type, a, start, n, left);
    const void* y = as_f32(type, b, start, n, right);
    char* out = offset(dst.data, start, width_of(type, dst.accumulator));
    void* sum = dst.accumulator ? static_cast<void*>(out) : left;
    f32_kernel(sum, x, y, n);
    if (divisor > 0) table.divide[at(DType::kF32)](sum, sum, n, divisor);
    if (!dst.accumulator) table.narrow[at(type)](out, sum, n);
  }
}

[[gnu::noinline]] void average(DType type, BinaryKernel kernel, void* dst, const void* a,
                               const void* b, std::size_t count, int divisor) {
  const DivideKernel divide = kernel_table().divide[at(type)];
  SYNCLINE_ASSERT(divide != nullptr, "reduce: bool has no average");
  const std::size_t width = size_of(type);
  for (std::size_t start = 0; start < count; start += kBlock) {
    const std::size_t n = std::min(kBlock, count - start);
    char* out = offset(dst, start, width);
    kernel(out, offset(a, start, width), offset(b, start, width), n);
    divide(out, out, n, divisor);
  }
}

[[gnu::noinline]] void copy_half(DType type, Target dst, Operand a, std::size_t count,
                                 int divisor) {
  const KernelTable& table = kernel_table();
  if (dst.accumulator == a.accumulator && divisor <= 0) {
    std::memmove(dst.data, a.data, count * width_of(type, a.accumulator));
    return;
  }
  float block[kBlock];
  for (std::size_t start = 0; start < count; start += kBlock) {
    const std::size_t n = std::min(kBlock, count - start);
    char* out = offset(dst.data, start, width_of(type, dst.accumulator));
    float* own = dst.accumulator ? reinterpret_cast<float*>(out) : block;
    const void* value = as_f32(type, a, start, n, own);
    if (divisor > 0) {
      table.divide[at(DType::kF32)](own, value, n, divisor);
      value = own;
    }
    if (!dst.accumulator) table.narrow[at(type)](out, value, n);
  }
}

}  // namespace

bool is_supported(DType type, ReduceOp op) {
  const DType wide = accumulate_type(type);
  return kernel_table().binary[at(wide)][static_cast<int>(op)] != nullptr;
}

void reduce(DType type, ReduceOp op, Target dst, Operand a, Operand b, std::size_t count,
            int divisor) {
  const KernelTable& table = kernel_table();
  const BinaryKernel kernel = table.binary[at(accumulate_type(type))][static_cast<int>(op)];
  SYNCLINE_ASSERT(kernel != nullptr, "reduce: ask is_supported(type, op) first");
  const FloatEnvironment environment;
  if (is_half(type)) {
    if (divisor <= 0 && (op == ReduceOp::kSum || op == ReduceOp::kAverage)) {
      table.half_sum[at(type)][dst.accumulator][a.accumulator][b.accumulator](dst.data, a.data,
                                                                              b.data, count);
      return;
    }
    reduce_half(type, kernel, dst, a, b, count, divisor);
    return;
  }
  if (divisor <= 0) {
    kernel(dst.data, a.data, b.data, count);
    return;
  }
  average(type, kernel, dst.data, a.data, b.data, count, divisor);
}

void copy(DType type, Target dst, Operand a, std::size_t count, int divisor) {
  if (count == 0) return;
  const KernelTable& table = kernel_table();
  const FloatEnvironment environment;
  if (type == DType::kBool) {
    SYNCLINE_ASSERT(divisor <= 0, "copy: bool has no average");
    table.normalise(dst.data, a.data, count);
  } else if (is_half(type)) {
    copy_half(type, dst, a, count, divisor);
  } else if (divisor > 0) {
    table.divide[at(type)](dst.data, a.data, count, divisor);
  } else {
    std::memmove(dst.data, a.data, count * size_of(type));
  }
}

void scale(DType type, void* dst, const void* a, std::size_t count, double factor) {
  const KernelTable& table = kernel_table();
  const ScaleKernel kernel = table.scale[at(accumulate_type(type))];
  SYNCLINE_ASSERT(kernel != nullptr, "scale: float types only");
  const FloatEnvironment environment;
  if (!is_half(type)) {
    kernel(dst, a, count, factor);
    return;
  }
  float block[kBlock];
  for (std::size_t start = 0; start < count; start += kBlock) {
    const std::size_t n = std::min(kBlock, count - start);
    table.widen[at(type)](block, offset(a, start, size_of(type)), n);
    kernel(block, block, n, factor);
    table.narrow[at(type)](offset(dst, start, size_of(type)), block, n);
  }
}

const char* target_name() { return kernel_table().name; }

}  // namespace syncline::kernels
