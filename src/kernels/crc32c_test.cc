#include "kernels/crc32c.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/crc32c_tables.h"

namespace syncline::kernels {
namespace {

// Vectors of RFC 3720, appendix B.4.
TEST(Crc32c, PublishedVectors) {
  EXPECT_EQ(crc32c("123456789", 9), 0xe3069283u);
  EXPECT_EQ(crc32c("", 0), 0u);
  std::vector<unsigned char> data(32, 0);
  EXPECT_EQ(crc32c(data.data(), 32), 0x8a9136aau);
  data.assign(32, 0xff);
  EXPECT_EQ(crc32c(data.data(), 32), 0x62a8ab43u);
  std::iota(data.begin(), data.end(), static_cast<unsigned char>(0));
  EXPECT_EQ(crc32c(data.data(), 32), 0x46dd794eu);
  std::iota(data.rbegin(), data.rend(), static_cast<unsigned char>(0));
  EXPECT_EQ(crc32c(data.data(), 32), 0x113fdb5cu);
}

TEST(Crc32c, EveryWayEqualsThePortableOneAtEveryLengthAndAlignment) {
  std::mt19937 random(1);
  std::vector<unsigned char> data(70000);
  for (auto& byte : data) byte = static_cast<unsigned char>(random());
  std::vector<std::size_t> lengths = {4095, 4096, 4097, 15359, 15360, 15361, 65535, 65536, 65537};
  for (std::size_t length = 0; length < 2000; ++length) lengths.push_back(length);
  for (const std::size_t length : lengths) {
    for (const std::size_t shift : {0, 1, 3, 7}) {
      const unsigned char* start = data.data() + shift;
      const std::uint32_t expected = crc32c_update_portable(~0u, start, length);
      EXPECT_EQ(crc32c(start, length), ~expected) << length << " bytes at offset " << shift;
      const std::vector<Crc32cUpdate> ways = crc32c_updates();
      for (std::size_t way = 1; way < ways.size(); ++way) {
        EXPECT_EQ(ways[way](~0u, start, length), expected)
            << "way " << way << ", " << length << " bytes at offset " << shift;
      }
    }
  }
}

TEST(Crc32c, SeedContinues) {
  const std::string text(50000, 'x');
  const std::uint32_t whole = crc32c(text.data(), text.size());
  for (const std::size_t cut : {0, 1, 8, 100, 15360, 49999, 50000}) {
    const std::uint32_t head = crc32c(text.data(), cut);
    EXPECT_EQ(crc32c(text.data() + cut, text.size() - cut, head), whole);
  }
}

TEST(Crc32c, NoticesEverySingleBitFlip) {
  std::vector<unsigned char> data(600, 0x5a);
  const std::uint32_t good = crc32c(data.data(), data.size());
  for (std::size_t bit = 0; bit < data.size() * 8; ++bit) {
    data[bit / 8] = static_cast<unsigned char>(data[bit / 8] ^ (1 << bit % 8));
    EXPECT_NE(crc32c(data.data(), data.size()), good) << "bit " << bit;
    data[bit / 8] = static_cast<unsigned char>(data[bit / 8] ^ (1 << bit % 8));
  }
}

}  // namespace
}  // namespace syncline::kernels
