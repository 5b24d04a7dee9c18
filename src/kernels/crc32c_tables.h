// Polynomial arithmetic of CRC32C and the portable update. Private to kernels/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace syncline::kernels {

// 0x1edc6f41 with its bits reversed: the highest power of x is the lowest bit.
inline constexpr std::uint32_t kCrc32cPolynomial = 0x82f63b78;

// x^exponent modulo the polynomial, bits reversed.
constexpr std::uint32_t x_power(std::size_t exponent) {
  std::uint32_t value = 0x80000000;
  for (; exponent > 0; --exponent) value = (value >> 1) ^ ((value & 1) ? kCrc32cPolynomial : 0);
  return value;
}

// Advances a raw (not inverted) CRC register.
using Crc32cUpdate = std::uint32_t (*)(std::uint32_t crc, const unsigned char* data,
                                       std::size_t bytes);

// Eight bytes a step by table ("slicing by 8").
std::uint32_t crc32c_update_portable(std::uint32_t crc, const unsigned char* data,
                                     std::size_t bytes);

// Those that this CPU can run, the fastest last.
std::vector<Crc32cUpdate> crc32c_updates();

}  // namespace syncline::kernels
