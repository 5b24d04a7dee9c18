#include "syncline/types.h"

#include <iterator>

namespace syncline {
namespace {

template <class Enum, std::size_t N>
const char* name_of(Enum value, const char* const (&names)[N]) {
  const auto index = static_cast<std::size_t>(value);
  return index < N ? names[index] : "unknown";
}

}  // namespace

const char* to_string(DType type) {
  static constexpr const char* kNames[] = {"f32", "f64", "f16", "bf16", "i8",
                                           "u8",  "i16", "i32", "i64",  "bool"};
  return name_of(type, kNames);
}

const char* to_string(ReduceOp op) {
  static constexpr const char* kNames[] = {"sum",     "average", "min",    "max",
                                           "product", "bit_and", "bit_or", "bit_xor"};
  return name_of(op, kNames);
}

const char* to_string(Collective kind) {
  static constexpr const char* kNames[] = {"all_reduce", "reduce_scatter", "all_gather",
                                           "broadcast",  "reduce",         "barrier",
                                           "gather",     "scatter",        "all_to_all"};
  return name_of(kind, kNames);
}

}  // namespace syncline
