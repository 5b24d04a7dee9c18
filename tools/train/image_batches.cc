#include "tools/train/image_batches.h"

#include <array>
#include <cmath>
#include <cstddef>

#include "base/splitmix.h"

namespace syncline::tools {

PixelStatistics pixel_statistics(const data::ImageSet& set) {
  std::array<std::uint64_t, 256> histogram{};
  for (const std::uint8_t pixel : set.pixels) ++histogram[pixel];
  double sum = 0;
  double squares = 0;
  for (std::size_t value = 0; value < histogram.size(); ++value) {
    const double pixel = static_cast<double>(value) / 255.0;
    sum += pixel * static_cast<double>(histogram[value]);
    squares += pixel * pixel * static_cast<double>(histogram[value]);
  }
  const double count = static_cast<double>(set.pixels.size());
  PixelStatistics result;
  result.mean = sum / count;
  const double variance = squares / count - result.mean * result.mean;
  if (variance > 1e-12) result.deviation = std::sqrt(variance);
  return result;
}

ImageBatches::ImageBatches(const data::ImageSet& set, PixelStatistics statistics, Augment augment,
                           std::uint64_t seed)
    : set_(set), augment_(augment), seed_(seed) {
  for (int i = 0; i < 256; ++i) {
    value_[i] = static_cast<float>((i / 255.0 - statistics.mean) / statistics.deviation);
  }
}

void ImageBatches::fill(const std::vector<std::uint64_t>& indices, std::uint64_t epoch,
                        float* images, std::int64_t* labels) const {
  const std::size_t size = pixels();
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::uint8_t* source = &set_.pixels[indices[i] * size];
    float* image = images + i * size;
    labels[i] = set_.labels[indices[i]];
    if (augment_ == Augment::kShiftFlip) {
      const std::uint64_t key = splitmix(splitmix(seed_ + kSplitmixStep) + epoch * kSplitmixStep);
      fill_changed(source, splitmix(key + (indices[i] + 1) * kSplitmixStep), image);
    } else {
      for (std::size_t p = 0; p < size; ++p) image[p] = value_[source[p]];
    }
  }
}

void ImageBatches::fill_changed(const std::uint8_t* source, std::uint64_t random,
                                float* image) const {
  constexpr std::uint64_t kPlaces = 2 * kShift + 1;
  const int down = static_cast<int>(random % kPlaces) - kShift;
  const int right = static_cast<int>(random / kPlaces % kPlaces) - kShift;
  const bool mirrored = (random >> 63) != 0;
  const int rows = static_cast<int>(set_.rows);
  const int columns = static_cast<int>(set_.columns);
  for (int row = 0; row < rows; ++row) {
    const int from_row = row - down;
    for (int column = 0; column < columns; ++column) {
      const int moved = column - right;
      const int from = mirrored ? columns - 1 - moved : moved;
      const bool inside = from_row >= 0 && from_row < rows && from >= 0 && from < columns;
      image[row * columns + column] = value_[inside ? source[from_row * columns + from] : 0];
    }
  }
}

}  // namespace syncline::tools
