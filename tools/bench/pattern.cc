#include "tools/bench/pattern.h"

#include <algorithm>
#include <cstring>

#include "base/half.h"

namespace syncline::tools {
namespace {

template <class T>
void append(std::vector<std::byte>& bytes, T value) {
  const auto* const raw = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), raw, raw + sizeof value);
}

// Integers wrap; small whole numbers are exact in every float type.
void append(std::vector<std::byte>& bytes, DType type, std::int64_t value) {
  switch (type) {
    case DType::kF32:
      return append(bytes, static_cast<float>(value));
    case DType::kF64:
      return append(bytes, static_cast<double>(value));
    case DType::kF16:
      return append(bytes, float_to_f16(static_cast<float>(value)));
    case DType::kBF16:
      return append(bytes, float_to_bf16(static_cast<float>(value)));
    case DType::kI8:
    case DType::kU8:
      return append(bytes, static_cast<std::uint8_t>(value));
    case DType::kI16:
      return append(bytes, static_cast<std::uint16_t>(value));
    case DType::kI32:
      return append(bytes, static_cast<std::uint32_t>(value));
    case DType::kI64:
      return append(bytes, value);
    case DType::kBool:
      return append(bytes, static_cast<std::uint8_t>(value != 0));
  }
}

std::int64_t input_value(DType type, ReduceOp op, std::size_t k, int rank, int ranks) {
  const auto i = static_cast<std::int64_t>(k);
  if (type == DType::kBool) return (i + rank) % 3 == 0;
  switch (op) {
    case ReduceOp::kProduct:  // one factor of 2 or 3 in each product
      return i % ranks == rank ? 2 + i % 2 : 1;
    case ReduceOp::kAverage:  // the ranks' parts add up to zero
      return i % 3 + ranks - 1 - 2 * rank;
    case ReduceOp::kSum:
      return (i + 3 * rank) % 4;
    default:
      return (5 * i + 11 * rank) % 64;
  }
}

std::int64_t combine(DType type, ReduceOp op, std::int64_t a, std::int64_t b) {
  if (type == DType::kBool && (op == ReduceOp::kSum || op == ReduceOp::kMax)) return a | b;
  switch (op) {
    case ReduceOp::kMin:
      return std::min(a, b);
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kProduct:
      return a * b;
    case ReduceOp::kBitAnd:
      return a & b;
    case ReduceOp::kBitOr:
      return a | b;
    case ReduceOp::kBitXor:
      return a ^ b;
    default:
      return a + b;
  }
}

}  // namespace

Pattern Pattern::input(DType type, ReduceOp op, int rank, int ranks) {
  std::vector<std::byte> bytes;
  for (std::size_t k = 0; k < kPatternPeriod; ++k)
    append(bytes, type, input_value(type, op, k, rank, ranks));
  return {type, std::move(bytes)};
}

Pattern Pattern::reduced(DType type, ReduceOp op, int ranks) {
  std::vector<std::byte> bytes;
  for (std::size_t k = 0; k < kPatternPeriod; ++k) {
    std::int64_t value = input_value(type, op, k, 0, ranks);
    for (int rank = 1; rank < ranks; ++rank)
      value = combine(type, op, value, input_value(type, op, k, rank, ranks));
    append(bytes, type, op == ReduceOp::kAverage ? value / ranks : value);
  }
  return {type, std::move(bytes)};
}

Pattern Pattern::filler(DType type) {
  std::vector<std::byte> bytes;
  for (std::size_t k = 0; k < kPatternPeriod; ++k)
    append(bytes, type, type == DType::kBool ? k % 2 : 99);
  return {type, std::move(bytes)};
}

void Pattern::fill(void* data, std::size_t count, std::size_t first) const {
  auto* out = static_cast<std::byte*>(data);
  for (std::size_t at = first % kPatternPeriod; count > 0; at = 0) {
    const std::size_t run = std::min(count, kPatternPeriod - at);
    std::memcpy(out, bytes_.data() + at * width_, run * width_);
    out += run * width_;
    count -= run;
  }
}

std::uint64_t Pattern::count_wrong(const void* data, std::size_t count, std::size_t first) const {
  const auto* in = static_cast<const std::byte*>(data);
  std::uint64_t wrong = 0;
  for (std::size_t at = first % kPatternPeriod; count > 0; at = 0) {
    const std::size_t run = std::min(count, kPatternPeriod - at);
    const std::byte* const expected = bytes_.data() + at * width_;
    if (std::memcmp(in, expected, run * width_) != 0) {
      for (std::size_t i = 0; i < run; ++i) {
        if (std::memcmp(in + i * width_, expected + i * width_, width_) != 0) ++wrong;
      }
    }
    in += run * width_;
    count -= run;
  }
  return wrong;
}

}  // namespace syncline::tools
