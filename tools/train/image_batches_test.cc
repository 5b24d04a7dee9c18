#include "tools/train/image_batches.h"

#include <vector>

#include "gtest/gtest.h"

namespace syncline::tools {
namespace {

// Two images of 3 x 3; pixel p of image i is 10 * i + p.
data::ImageSet small_set() {
  data::ImageSet set;
  set.count = 2;
  set.rows = set.columns = 3;
  set.classes = 8;
  for (int i = 0; i < 2; ++i) {
    for (int p = 0; p < 9; ++p) set.pixels.push_back(static_cast<std::uint8_t>(10 * i + p + 1));
  }
  set.labels = {3, 7};
  return set;
}

// Keeps pixels as they are, times 1 / 255.
constexpr PixelStatistics kPlain{0, 1};

std::vector<float> fill(const ImageBatches& batches, std::vector<std::uint64_t> indices,
                        std::uint64_t epoch, std::vector<std::int64_t>* labels = nullptr) {
  std::vector<float> images(indices.size() * batches.pixels());
  std::vector<std::int64_t> found(indices.size());
  batches.fill(indices, epoch, images.data(), found.data());
  for (float& pixel : images) pixel *= 255;
  if (labels != nullptr) *labels = found;
  return images;
}

TEST(PixelStatistics, AreThoseOfThePixels) {
  data::ImageSet set = small_set();
  set.pixels = {0, 0, 255, 255};
  const PixelStatistics statistics = pixel_statistics(set);
  EXPECT_DOUBLE_EQ(statistics.mean, 0.5);
  EXPECT_DOUBLE_EQ(statistics.deviation, 0.5);
  set.pixels = {7, 7, 7};
  EXPECT_EQ(pixel_statistics(set).deviation, 1.0) << "equal pixels must not divide by zero";
}

TEST(ImageBatches, PutsSamplesInTheOrderAskedFor) {
  const data::ImageSet set = small_set();
  const ImageBatches batches(set, kPlain, Augment::kNone, 1);
  std::vector<std::int64_t> labels;
  const std::vector<float> images = fill(batches, {1, 0, 1}, 0, &labels);
  EXPECT_EQ(labels, (std::vector<std::int64_t>{7, 3, 7}));
  EXPECT_FLOAT_EQ(images[0], 11);
  EXPECT_FLOAT_EQ(images[9], 1);
  EXPECT_FLOAT_EQ(images[26], 19);
}

TEST(ImageBatches, NormalisesWithMeanAndDeviation) {
  const data::ImageSet set = small_set();
  const ImageBatches batches(set, {1.0 / 255, 0.5}, Augment::kNone, 1);
  const std::vector<float> images = fill(batches, {0}, 0);
  EXPECT_NEAR(images[0], 0, 1e-6);
  EXPECT_NEAR(images[2], 4, 1e-5);
}

TEST(ImageBatches, ChangesDependOnSeedEpochAndSampleOnly) {
  const data::ImageSet set = small_set();
  const ImageBatches batches(set, kPlain, Augment::kShiftFlip, 5);
  const std::vector<float> alone = fill(batches, {1}, 3);
  const std::vector<float> later = fill(batches, {0, 1}, 3);
  EXPECT_EQ(alone, std::vector<float>(later.begin() + 9, later.end()));
  int differing = 0;
  for (std::uint64_t epoch = 0; epoch < 20; ++epoch)
    differing += fill(batches, {1}, epoch) != alone;
  EXPECT_GT(differing, 10);
}

// Every pixel that is not black is one of the image, and its neighbours moved along.
TEST(ImageBatches, ShiftsAndMirrorsWholeImages) {
  const data::ImageSet set = small_set();
  const ImageBatches batches(set, kPlain, Augment::kShiftFlip, 9);
  bool saw_mirrored = false;
  bool saw_plain = false;
  for (std::uint64_t epoch = 0; epoch < 50; ++epoch) {
    const std::vector<float> image = fill(batches, {0}, epoch);
    for (int row = 0; row < 3; ++row) {
      for (int column = 1; column < 3; ++column) {
        const auto left =
            static_cast<int>(image[static_cast<std::size_t>(3 * row + column - 1)] + 0.5f);
        const auto right =
            static_cast<int>(image[static_cast<std::size_t>(3 * row + column)] + 0.5f);
        if (left == 0 || right == 0) continue;
        EXPECT_EQ(std::abs(right - left), 1);
        (right > left ? saw_plain : saw_mirrored) = true;
      }
    }
  }
  EXPECT_TRUE(saw_mirrored);
  EXPECT_TRUE(saw_plain);
}

}  // namespace
}  // namespace syncline::tools
