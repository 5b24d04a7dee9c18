// CRC32C (Castagnoli), hardware instructions where the CPU has them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace syncline::kernels {

// CRC of `bytes` bytes; pass a previous result as `seed` to continue.
// crc32c("123456789") = 0xe3069283.
std::uint32_t crc32c(const void* data, std::size_t bytes, std::uint32_t seed = 0);

}  // namespace syncline::kernels
