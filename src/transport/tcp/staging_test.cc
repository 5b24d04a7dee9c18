#include "transport/tcp/staging.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <random>

namespace syncline::transport::tcp {
namespace {

constexpr std::size_t kFrameMax = 256 * 1024 + 80;

TEST(Staging, IdleRailStaysAtTheStartOfOneBlock) {
  Staging staging;
  const std::byte* start = nullptr;
  for (int i = 0; i < 10'000; ++i) {
    const auto space = staging.space(64, kFrameMax);
    if (start == nullptr) start = space.data();
    ASSERT_EQ(space.data(), start);
    staging.wrote(64);
    staging.release(staging.take(64));
  }
  EXPECT_EQ(staging.blocks(), 1u);
}

// Frames of random sizes, read in random cuts, held and released in order: every frame lies in one
// piece and keeps its bytes until it is released.
TEST(Staging, FramesLieInOnePieceAndStayPut) {
  struct Held {
    Staging::Block* block;
    const std::byte* data;
    std::size_t bytes;
    std::byte mark;
  };
  std::mt19937_64 random(9);
  Staging staging;
  std::deque<std::pair<std::size_t, std::byte>> coming;  // not wholly read
  std::deque<Held> held;
  std::size_t offset = 0;       // already written of coming.front()... in reading order
  std::size_t write_index = 0;  // which coming frame the next byte belongs to
  std::size_t held_bytes = 0;
  const auto add_frame = [&] {
    const std::size_t bytes = random() % 4 == 0 ? kFrameMax - random() % 9 : 64 + random() % 5000;
    coming.emplace_back(bytes, static_cast<std::byte>(random()));
  };
  for (int round = 0; round < 4000; ++round) {
    while (coming.size() < write_index + 8) add_frame();
    const auto space = staging.space(coming.front().first, kFrameMax);
    ASSERT_FALSE(space.empty());
    std::size_t part = 1 + random() % std::min<std::size_t>(space.size(), 300'000);
    staging.wrote(part);
    std::byte* at = space.data();
    while (part > 0) {
      while (coming.size() <= write_index) add_frame();
      const std::size_t step = std::min(part, coming[write_index].first - offset);
      std::memset(at, static_cast<int>(coming[write_index].second), step);
      at += step, part -= step, offset += step;
      if (offset == coming[write_index].first) ++write_index, offset = 0;
    }
    while (write_index > 0) {
      const auto [bytes, mark] = coming.front();
      const std::byte* data = staging.data();
      held.push_back({staging.take(bytes), data, bytes, mark});
      held_bytes += bytes;
      coming.pop_front();
      --write_index;
    }
    while (!held.empty() && (held_bytes > (4u << 20) || random() % 3 != 0)) {
      const Held& oldest = held.front();
      ASSERT_TRUE(std::all_of(oldest.data, oldest.data + oldest.bytes,
                              [&](std::byte each) { return each == oldest.mark; }));
      staging.release(oldest.block);
      held_bytes -= oldest.bytes;
      held.pop_front();
    }
  }
  EXPECT_LE(staging.blocks(), 10u) << "blocks are recycled";
}

}  // namespace
}  // namespace syncline::transport::tcp
