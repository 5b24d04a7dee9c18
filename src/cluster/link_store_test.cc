#include "cluster/link_store.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <deque>
#include <random>
#include <string>

namespace syncline::cluster {
namespace {

constexpr std::size_t kStoreWindow = 64 * 1024;
constexpr std::size_t kFrameMax = 16 * 1024;

// Against a plain queue of bytes, with random sizes, partial writes and acknowledgements.
TEST(LinkStore, YieldsEveryByteInOrderWhateverHappens) {
  std::mt19937_64 random(21);
  LinkStore store(kStoreWindow, kFrameMax);
  std::deque<std::byte> expected;       // appended, not written
  std::deque<std::size_t> frame_bytes;  // not acknowledged
  std::size_t stored = 0;
  std::size_t written = 0;  // of the frames that are stored
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
      ASSERT_GT(stored + bytes + 2 * kFrameMax, kStoreWindow) << "refused with room left";
    }
    ASSERT_EQ(store.bytes(), stored);
    ASSERT_LE(stored, kStoreWindow);
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
      written += wrote;
    }
    std::size_t whole = 0;  // frames that have left wholly
    for (std::size_t sum = 0; whole < frame_bytes.size(); ++whole) {
      sum += frame_bytes[whole];
      if (sum > written) break;
    }
    if (random() % 4 == 0 && whole > 0) {
      const std::size_t frames = 1 + random() % whole;
      store.acknowledge(frames);
      for (std::size_t i = 0; i < frames; ++i) {
        stored -= frame_bytes.front();
        written -= frame_bytes.front();
        frame_bytes.pop_front();
      }
    }
    ASSERT_EQ(store.has_unwritten(), !expected.empty());
  }
  EXPECT_GT(refused, 50u);
  EXPECT_GT(appended, 500);
  EXPECT_LE(sealed, appended) << "a frame is sealed once";
}

struct Rails {
  static constexpr std::size_t kBytes = 1000;
  Rails() {
    for (int i = 0; i < 10; ++i) store.append(kBytes)[0] = static_cast<std::byte>(i);
  }
  // The first byte of each frame that `rail` is given; writes `bytes` of them.
  std::string write(int rail, std::size_t bytes_max, std::size_t bytes) {
    std::array<std::span<const std::byte>, 16> pieces;
    const std::size_t count = store.collect(
        pieces, bytes_max, [](std::byte*) {}, rail);
    std::string seen;
    std::size_t offered = 0;
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t at = 0; at < pieces[i].size(); at += kBytes) {
        seen += std::to_string(std::to_integer<int>(pieces[i][at]));
      }
      offered += pieces[i].size();
    }
    store.wrote(std::min(offered, bytes), rail);
    return seen;
  }
  LinkStore store{kStoreWindow, kFrameMax, 2};
};

TEST(LinkStore, RailsShareTheFramesAndInheritThem) {
  Rails rails;
  EXPECT_EQ(rails.write(0, 3000, 3000), "012");
  EXPECT_EQ(rails.write(1, 2000, 1500), "34");
  EXPECT_EQ(rails.write(0, 1000, 1000), "5");
  rails.store.drop_rail(1);
  EXPECT_EQ(rails.write(0, 3000, 3000), "346") << "3 had left, but may not have arrived";
  EXPECT_EQ(rails.store.bytes_repeated(), 2000u);
  rails.store.acknowledge(5);
  EXPECT_EQ(rails.store.frames(), 5u);
  rails.store.drop_rail(0);
  rails.store.mark_arrived(0);
  EXPECT_EQ(rails.write(1, 9000, 9000), "6789") << "5 arrived";
  EXPECT_FALSE(rails.store.has_unwritten(1));
  rails.store.send_again(2);
  rails.store.send_again(0);
  EXPECT_EQ(rails.write(0, 9000, 9000), "7") << "what arrived is not sent again";
  rails.store.acknowledge(5);
  EXPECT_EQ(rails.store.bytes(), 0u);
}

TEST(LinkStore, FramesAcknowledgedInTheMiddleOfAWriteEndFirst) {
  Rails rails;
  EXPECT_EQ(rails.write(0, 10000, 10000), "0123456789");
  rails.store.drop_rail(0);
  EXPECT_EQ(rails.write(1, 3000, 500), "012");
  rails.store.acknowledge(10);  // rail 0 had brought them all
  EXPECT_EQ(rails.store.frames(), 0u);
  EXPECT_GE(rails.store.bytes(), Rails::kBytes) << "the frame that is being written stays";
  EXPECT_TRUE(rails.store.is_inside_frame(1));
  rails.write(1, 3000, 500);
  EXPECT_FALSE(rails.store.is_inside_frame(1));
  EXPECT_EQ(rails.store.bytes(), 0u);
  EXPECT_FALSE(rails.store.has_unwritten(1));
}

TEST(LinkStore, GoodbyeFitsBehindAFullWindow) {
  for (std::size_t bytes : {std::size_t{100}, std::size_t{4096}, kFrameMax, kFrameMax - 13}) {
    LinkStore store(kStoreWindow, kFrameMax);
    std::array<std::span<const std::byte>, 8> pieces;
    for (int laps = 0; laps < 100; ++laps) {
      while (store.append(bytes) != nullptr) {
      }
      while (store.has_unwritten()) {
        const std::size_t count = store.collect(pieces, kStoreWindow, [](std::byte*) {});
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
