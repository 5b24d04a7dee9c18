#include "kernels/stream_copy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace syncline::kernels {
namespace {

TEST(StreamCopy, CopiesEveryLengthFromAnyAddressAndNothingMore) {
  constexpr std::size_t kMax = 700;
  std::vector<unsigned char> source(kMax + 64);
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<unsigned char>(i * 31);
  alignas(64) unsigned char target[kMax + 64];
  for (std::size_t bytes = 0; bytes <= kMax; ++bytes) {
    const std::size_t skew = bytes % 61;
    std::memset(target, 0xee, sizeof target);
    stream_copy(target, source.data() + skew, bytes);
    ASSERT_EQ(std::memcmp(target, source.data() + skew, bytes), 0) << bytes;
    ASSERT_EQ(target[bytes], 0xee) << bytes;
  }
}

}  // namespace
}  // namespace syncline::kernels
