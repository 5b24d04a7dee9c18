#include "tests/harness/inputs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/half.h"
#include "kernels/reduce.h"
#include "kernels/reduce_reference_test.h"

namespace syncline::harness {
namespace {

template <class T>
Bytes bytes_of(T value) {
  Bytes out(sizeof value);
  std::memcpy(out.data(), &value, sizeof value);
  return out;
}

template <class T>
T read(const void* element) {
  T value;
  std::memcpy(&value, element, sizeof value);
  return value;
}

std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

bool is_float(DType type) {
  const DType wide = kernels::accumulate_type(type);
  return wide == DType::kF32 || wide == DType::kF64;
}

double small_float(ReduceOp op, std::uint64_t random) {
  static constexpr std::array<double, 8> kFactors = {1, -1, 2, 1, -2, -1, 1, -0.0};
  if (op == ReduceOp::kProduct) return kFactors[random % kFactors.size()];
  const auto pick = static_cast<int>(random % 18);
  return pick == 17 ? -0.0 : pick - 8;
}

// (a op b) in the accumulate type: halves are exact here, so the element type serves.
void combine(DType type, ReduceOp op, const Bytes& next, Bytes& sum, int divisor) {
  const std::size_t width = size_of(type);
  for (std::size_t at = 0; at < sum.size(); at += width) {
    kernels::reference::element(type, op, sum.data() + at, sum.data() + at, next.data() + at,
                                divisor);
  }
}

}  // namespace

Bytes element(DType type, double value) {
  switch (type) {
    case DType::kF32:
      return bytes_of(static_cast<float>(value));
    case DType::kF64:
      return bytes_of(value);
    case DType::kF16:
      return bytes_of(float_to_f16(static_cast<float>(value)));
    case DType::kBF16:
      return bytes_of(float_to_bf16(static_cast<float>(value)));
    case DType::kI16:
      return bytes_of(static_cast<std::int16_t>(value));
    case DType::kI32:
      return bytes_of(static_cast<std::int32_t>(value));
    case DType::kI64:
      return bytes_of(static_cast<std::int64_t>(value));
    case DType::kI8:
      return bytes_of(static_cast<std::int8_t>(value));
    case DType::kU8:
      return bytes_of(static_cast<std::uint8_t>(value));
    case DType::kBool:
      return bytes_of(static_cast<std::uint8_t>(value != 0));
  }
  return {};
}

double value_of(DType type, const void* element) {
  switch (type) {
    case DType::kF32:
      return read<float>(element);
    case DType::kF64:
      return read<double>(element);
    case DType::kF16:
      return f16_to_float(read<std::uint16_t>(element));
    case DType::kBF16:
      return bf16_to_float(read<std::uint16_t>(element));
    case DType::kI16:
      return read<std::int16_t>(element);
    case DType::kI32:
      return read<std::int32_t>(element);
    case DType::kI64:
      return static_cast<double>(read<std::int64_t>(element));
    case DType::kI8:
      return read<std::int8_t>(element);
    default:
      return read<std::uint8_t>(element);
  }
}

Bytes filled(DType type, std::size_t count, double value) {
  Bytes out(count * size_of(type));
  repeat(element(type, value), type, 0, count, out.data());
  return out;
}

bool is_defined(DType type, ReduceOp op) { return kernels::is_supported(type, op); }

Bytes contribution(DType type, ReduceOp op, int rank) {
  Bytes out;
  for (std::size_t i = 0; i < kPeriod; ++i) {
    const std::uint64_t random = mixed(i * 1000 + static_cast<std::uint64_t>(rank));
    Bytes one;
    if (is_float(type)) {
      one = element(type, small_float(op, random));
    } else if (type == DType::kBool) {
      one = element(type, static_cast<double>(random & 1));
    } else {
      one = bytes_of(random);
      one.resize(size_of(type));
    }
    out.insert(out.end(), one.begin(), one.end());
  }
  return out;
}

Bytes reduction(DType type, ReduceOp op, std::span<const Bytes> contributions) {
  Bytes sum = contributions[0];
  const auto n = static_cast<int>(contributions.size());
  for (int r = 1; r < n; ++r) {
    const bool last = r == n - 1;
    combine(type, op, contributions[static_cast<std::size_t>(r)], sum,
            last && op == ReduceOp::kAverage ? n : 0);
  }
  return sum;
}

Bytes reduction(DType type, ReduceOp op, int ranks) {
  std::vector<Bytes> all;
  for (int r = 0; r < ranks; ++r) all.push_back(contribution(type, op, r));
  return reduction(type, op, all);
}

void repeat(const Bytes& period, DType type, std::size_t begin, std::size_t count, void* dst) {
  const std::size_t width = size_of(type);
  const std::size_t bytes = count * width;
  if (bytes == 0) return;
  auto* out = static_cast<std::byte*>(dst);
  const std::size_t phase = begin * width % period.size();
  std::size_t done = std::min(bytes, period.size() - phase);
  std::memcpy(out, period.data() + phase, done);
  const std::size_t head = std::min(bytes - done, phase);
  if (head != 0) std::memcpy(out + done, period.data(), head);
  done += head;
  while (done < bytes) {  // `done` is a whole period here, doubling keeps it a multiple
    const std::size_t more = std::min(done, bytes - done);
    std::memcpy(out + done, out, more);
    done += more;
  }
}

}  // namespace syncline::harness
