#include "tools/run/line_buffer.h"

#include <gtest/gtest.h>

#include <vector>

namespace syncline::tools {
namespace {

std::vector<std::string> lines(const std::string& bytes, std::size_t step) {
  LineBuffer buffer;
  std::vector<std::string> found;
  const auto sink = [&](std::string_view line) { found.emplace_back(line); };
  for (std::size_t i = 0; i < bytes.size(); i += step) buffer.feed(bytes.substr(i, step), sink);
  buffer.flush(sink);
  return found;
}

TEST(LineBuffer, CutsAtEveryKindOfEnd) {
  const std::vector<std::string> expected = {"a", "", "b", "10%", "20%", "c", "rest"};
  for (const std::size_t step : {1, 2, 3, 100})
    EXPECT_EQ(lines("a\n\nb\r\n10%\r20%\rc\nrest", step), expected) << step;
}

TEST(LineBuffer, BoundsLongLines) {
  const auto found = lines(std::string(LineBuffer::kLineBytesMax * 2 + 5, 'x') + "\n", 1000);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].size(), LineBuffer::kLineBytesMax);
  EXPECT_EQ(found[2].size(), 5u);
}

TEST(LineBuffer, NothingGivesNothing) { EXPECT_TRUE(lines("", 1).empty()); }

}  // namespace
}  // namespace syncline::tools
