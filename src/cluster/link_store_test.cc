#include "cluster/link_store.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <deque>
#include <random>

namespace syncline::cluster {
namespace {

constexpr std::size_t kWindow = 64 * 1024;
constexpr std::size_t kFrameMax = 16 * 1024;

// Against a plain queue of bytes, with random sizes, partial writes and acknowledgements.
TEST(LinkStore, YieldsEveryByteInOrderWhateverHappens) {
  std::mt19937_64 random(21);
  LinkStore store(kWindow, kFrameMax);
  std::deque<std::byte> expected;       // appended, not written
  std::deque<std::size_t> frame_bytes;  // not acknowledged
  std::size_t stored = 0;
  std::size_t refused = 0;
  int sealed = 0;
  int appended = 0;
  for (int round = 0; round < 5000; ++round) {
    const std::size_t bytes = random() % 5 == 0 ? kFrameMax - random() % 64 : 1 + random() % 900;
    if (std::byte* frame = store.append(bytes)) {
      for (std::size_t i = 0; i < bytes; ++i) {
        frame[i] = static_cast<std::byte>(random());
        expected.push_back(frame[i]);
      }
      frame_bytes.push_back(bytes);
      stored += bytes;
      ++appended;
    } else {
      ++refused;
      ASSERT_GT(stored + bytes + 2 * kFrameMax, kWindow) << "refused with room left";
    }
    ASSERT_EQ(store.bytes(), stored);
    ASSERT_LE(stored, kWindow);
    if (random() % 3 == 0) {
      std::array<std::span<const std::byte>, 3> pieces;
      const std::size_t count = store.collect(pieces, 20'000, [&](std::byte*) { ++sealed; });
      std::size_t budget = random() % 30'000;
      std::size_t wrote = 0;
      for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t k = 0; k < pieces[i].size() && budget > 0; ++k, --budget, ++wrote) {
          ASSERT_EQ(pieces[i][k], expected.front());
          expected.pop_front();
        }
      }
      store.wrote(wrote);
    }
    if (random() % 4 == 0 && store.written_frames() > 0) {
      const std::size_t frames = 1 + random() % store.written_frames();
      store.acknowledge(frames);
      for (std::size_t i = 0; i < frames; ++i) {
        stored -= frame_bytes.front();
        frame_bytes.pop_front();
      }
    }
    ASSERT_EQ(store.has_unwritten(), !expected.empty());
  }
  EXPECT_GT(refused, 50u);
  EXPECT_GT(appended, 500);
  EXPECT_LE(sealed, appended) << "a frame is sealed once";
}

TEST(LinkStore, GoodbyeFitsBehindAFullWindow) {
  for (std::size_t bytes : {std::size_t{100}, std::size_t{4096}, kFrameMax, kFrameMax - 13}) {
    LinkStore store(kWindow, kFrameMax);
    std::array<std::span<const std::byte>, 8> pieces;
    for (int laps = 0; laps < 100; ++laps) {
      while (store.append(bytes) != nullptr) {
      }
      while (store.has_unwritten()) {
        const std::size_t count = store.collect(pieces, kWindow, [](std::byte*) {});
        for (std::size_t i = 0; i < count; ++i) store.wrote(pieces[i].size());
      }
      if (laps < 99) store.acknowledge(1 + static_cast<std::size_t>(laps) % store.frames());
    }
    while (store.append(bytes) != nullptr) {
    }
    EXPECT_NE(store.append(64, /*beyond_window=*/true), nullptr) << bytes;
  }
}

}  // namespace
}  // namespace syncline::cluster
