#include <array>

#include "kernels/crc32c_tables.h"

namespace syncline::kernels {
namespace {

using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

// tables[k][b]: the register after byte b and k zero bytes.
constexpr Tables make_tables() {
  Tables tables = {};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? kCrc32cPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t previous = tables[k - 1][byte];
      tables[k][byte] = (previous >> 8) ^ tables[0][previous & 0xff];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

}  // namespace

std::uint32_t crc32c_update_portable(std::uint32_t crc, const unsigned char* data,
                                     std::size_t bytes) {
  for (; bytes >= 8; bytes -= 8, data += 8) {
    const std::uint32_t first =
        crc ^ (data[0] | data[1] << 8 | data[2] << 16 | static_cast<std::uint32_t>(data[3]) << 24);
    crc = kTables[7][first & 0xff] ^ kTables[6][(first >> 8) & 0xff] ^
          kTables[5][(first >> 16) & 0xff] ^ kTables[4][first >> 24] ^ kTables[3][data[4]] ^
          kTables[2][data[5]] ^ kTables[1][data[6]] ^ kTables[0][data[7]];
  }
  for (; bytes > 0; --bytes, ++data) crc = (crc >> 8) ^ kTables[0][(crc ^ *data) & 0xff];
  return crc;
}

}  // namespace syncline::kernels
