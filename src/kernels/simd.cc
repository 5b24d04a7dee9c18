// Compiled once per instruction set by Highway; see hwy/foreach_target.h.
#include <hwy/cache_control.h>

#include <cstdint>
#include <cstring>

#include "kernels/kernel_table.h"
#include "kernels/stream_copy.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd.cc"
#include <hwy/foreach_target.h>
// Highway wants to come after foreach_target.
#include <hwy/highway.h>

#include "kernels/half-inl.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace syncline::kernels::HWY_NAMESPACE {

constexpr int at(DType type) { return static_cast<int>(type); }
constexpr int at(ReduceOp op) { return static_cast<int>(op); }

template <class T>
void fill_arithmetic(KernelTable& table, DType type) {
  auto& row = table.binary[at(type)];
  row[at(ReduceOp::kSum)] = row[at(ReduceOp::kAverage)] = binary<T, Sum>;
  row[at(ReduceOp::kMin)] = binary<T, Minimum>;
  row[at(ReduceOp::kMax)] = binary<T, Maximum>;
}

template <class T>
void fill_float(KernelTable& table, DType type) {
  fill_arithmetic<T>(table, type);
  table.binary[at(type)][at(ReduceOp::kProduct)] = binary<T, FloatProduct>;
  table.divide[at(type)] = divide_float<T>;
  table.scale[at(type)] = scale_float<T>;
}

template <class T>
void fill_integer(KernelTable& table, DType type) {
  fill_arithmetic<T>(table, type);
  auto& row = table.binary[at(type)];
  row[at(ReduceOp::kProduct)] = integer_product<T>;
  row[at(ReduceOp::kBitAnd)] = binary<T, BitAnd>;
  row[at(ReduceOp::kBitOr)] = binary<T, BitOr>;
  row[at(ReduceOp::kBitXor)] = binary<T, BitXor>;
  table.divide[at(type)] = divide_integer<T>;
}

void fill_bool(KernelTable& table) {
  auto& row = table.binary[at(DType::kBool)];
  row[at(ReduceOp::kSum)] = row[at(ReduceOp::kMax)] = row[at(ReduceOp::kBitOr)] =
      binary<std::uint8_t, BoolOr>;
  row[at(ReduceOp::kProduct)] = row[at(ReduceOp::kMin)] = row[at(ReduceOp::kBitAnd)] =
      binary<std::uint8_t, BoolAnd>;
  row[at(ReduceOp::kBitXor)] = binary<std::uint8_t, BoolXor>;
  table.normalise = normalise;
}

void stream(void* dst, const void* src, std::size_t bytes) {
  const hn::ScalableTag<std::uint8_t> d;
  const std::size_t lanes = hn::Lanes(d);
  auto* to = static_cast<std::uint8_t*>(dst);
  const auto* from = static_cast<const std::uint8_t*>(src);
  std::size_t at = 0;
  for (; at + lanes <= bytes; at += lanes) hn::Stream(hn::LoadU(d, from + at), d, to + at);
  std::memcpy(to + at, from + at, bytes - at);
  hwy::FlushStream();
}

template <class Half>
void fill_half(KernelTable& table, DType type) {
  table.widen[at(type)] = convert<AsF32, Half>;
  table.narrow[at(type)] = convert<Half, AsF32>;
  auto& sum = table.half_sum[at(type)];
  sum[0][0][0] = mixed_sum<Half, Half, Half>;
  sum[0][0][1] = mixed_sum<Half, Half, AsF32>;
  sum[0][1][0] = mixed_sum<Half, AsF32, Half>;
  sum[0][1][1] = mixed_sum<Half, AsF32, AsF32>;
  sum[1][0][0] = mixed_sum<AsF32, Half, Half>;
  sum[1][0][1] = mixed_sum<AsF32, Half, AsF32>;
  sum[1][1][0] = mixed_sum<AsF32, AsF32, Half>;
  sum[1][1][1] = mixed_sum<AsF32, AsF32, AsF32>;
}

KernelTable make_table() {
  KernelTable table = {};
  table.name = hwy::TargetName(HWY_TARGET);
  fill_float<float>(table, DType::kF32);
  fill_float<double>(table, DType::kF64);
  fill_integer<std::int8_t>(table, DType::kI8);
  fill_integer<std::uint8_t>(table, DType::kU8);
  fill_integer<std::int16_t>(table, DType::kI16);
  fill_integer<std::int32_t>(table, DType::kI32);
  fill_integer<std::int64_t>(table, DType::kI64);
  fill_bool(table);
  fill_half<AsF16>(table, DType::kF16);
  fill_half<AsBF16>(table, DType::kBF16);
  table.stream = stream;
  return table;
}

}  // namespace syncline::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace syncline::kernels {

HWY_EXPORT(make_table);

const KernelTable& kernel_table() {
  static const KernelTable table = HWY_DYNAMIC_DISPATCH(make_table)();
  return table;
}

void stream_copy(void* dst, const void* src, std::size_t bytes) {
  kernel_table().stream(dst, src, bytes);
}

}  // namespace syncline::kernels
#endif
