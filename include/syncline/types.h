// Element types and reduction operations that collectives understand.
#ifndef SYNCLINE_TYPES_H_
#define SYNCLINE_TYPES_H_

#include <cstddef>
#include <cstdint>

namespace syncline {

// Element type of a tensor. The numeric values travel on the wire: never renumber.
enum class DType : std::uint8_t {
  kF32 = 0,
  kF64 = 1,
  kF16 = 2,   // IEEE 754 binary16; sums accumulate in f32 and are rounded once
  kBF16 = 3,  // upper half of an f32; sums accumulate in f32 and are rounded once
  kI8 = 4,
  kU8 = 5,
  kI16 = 6,
  kI32 = 7,
  kI64 = 8,
  kBool = 9,  // one byte, always 0 or 1 in results
};
inline constexpr int kDTypeCount = 10;

// How contributions are combined. The numeric values travel on the wire: never renumber.
//
// Every result is bit-identical on all ranks. A group of one keeps its input's bits; else:
// - A NaN in any contribution gives the canonical quiet NaN of the type, also through min and max.
// - min and max order -0 below +0.
// - Integer sums and products wrap modulo 2^bits; an integer average is the wrapped sum divided by
// the
//   rank count, rounded toward zero.
// - bool: sum, max and bit_or are "or"; product, min and bit_and are "and"; average is refused.
// - bit_and, bit_or and bit_xor need an integer or bool type.
enum class ReduceOp : std::uint8_t {
  kSum = 0,
  kAverage = 1,
  kMin = 2,
  kMax = 3,
  kProduct = 4,
  kBitAnd = 5,
  kBitOr = 6,
  kBitXor = 7,
};
inline constexpr int kReduceOpCount = 8;

// The collective operations. The numeric values travel on the wire: never renumber.
enum class Collective : std::uint8_t {
  kAllReduce = 0,
  kReduceScatter = 1,
  kAllGather = 2,
  kBroadcast = 3,
  kReduce = 4,
  kBarrier = 5,
  kGather = 6,
  kScatter = 7,
  kAllToAll = 8,
};
inline constexpr int kCollectiveCount = 9;

// Bytes of one element.
constexpr std::size_t size_of(DType type) {
  switch (type) {
    case DType::kF64:
    case DType::kI64:
      return 8;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kF16:
    case DType::kBF16:
    case DType::kI16:
      return 2;
    default:
      return 1;
  }
}

// Short names as printed in messages and accepted on command lines: "f32", "sum", "all_reduce".
const char* to_string(DType type);
const char* to_string(ReduceOp op);
const char* to_string(Collective kind);

}  // namespace syncline

#endif  // SYNCLINE_TYPES_H_
