// One blocking call with bytes in and bytes out: for tests of values rather than of memory.
#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include "syncline/communicator.h"
#include "tests/harness/inputs.h"

namespace syncline::harness {

inline CallOptions with_schedule(const std::string& schedule) {
  CallOptions options;
  options.schedule = schedule;
  return options;
}

inline ConstTensorView view(const Bytes& bytes, DType type) {
  return {bytes.data(), bytes.size() / size_of(type), type};
}
inline TensorView view(Bytes& bytes, DType type) {
  return {bytes.data(), bytes.size() / size_of(type), type};
}

inline Bytes all_reduce(Communicator& world, DType type, const Bytes& in, ReduceOp op,
                        const CallOptions& options = {}) {
  Bytes out(in.size(), std::byte{0x5e});
  world.all_reduce(view(in, type), view(out, type), op, options).wait();
  return out;
}

// The result at root, else empty.
inline Bytes reduce(Communicator& world, DType type, const Bytes& in, int root, ReduceOp op,
                    const CallOptions& options = {}) {
  Bytes out(in.size(), std::byte{0x5e});
  world.reduce(view(in, type), view(out, type), root, op, options).wait();
  return world.rank() == root ? out : Bytes();
}

// `in` is repeated for each block, so that every rank ends with the reduction of `in`.
inline Bytes reduce_scatter(Communicator& world, DType type, const Bytes& in, ReduceOp op,
                            const CallOptions& options = {}) {
  Bytes blocks;
  for (int r = 0; r < world.size(); ++r) blocks.insert(blocks.end(), in.begin(), in.end());
  Bytes out(in.size(), std::byte{0x5e});
  world.reduce_scatter(view(blocks, type), view(out, type), op, options).wait();
  return out;
}

template <class T>
Bytes to_bytes(const std::vector<T>& values) {
  static_assert(!std::is_same_v<T, bool>);
  const auto* first = reinterpret_cast<const std::byte*>(values.data());
  return {first, first + values.size() * sizeof(T)};
}

template <class T>
std::vector<T> from_bytes(const Bytes& bytes) {
  const auto* first = reinterpret_cast<const T*>(bytes.data());
  return {first, first + bytes.size() / sizeof(T)};
}

// Elements of `type` that hold the values.
inline Bytes elements(DType type, const std::vector<double>& values) {
  Bytes out;
  for (const double value : values) {
    const Bytes one = element(type, value);
    out.insert(out.end(), one.begin(), one.end());
  }
  return out;
}

inline std::vector<double> values_of(DType type, const Bytes& bytes) {
  std::vector<double> out;
  for (std::size_t at = 0; at < bytes.size(); at += size_of(type)) {
    out.push_back(value_of(type, bytes.data() + at));
  }
  return out;
}

}  // namespace syncline::harness
