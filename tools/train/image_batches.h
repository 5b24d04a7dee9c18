// ImageBatches: turns samples of an image set into network input.
#pragma once

#include <cstdint>
#include <vector>

#include "syncline/data/idx.h"

namespace syncline::tools {

struct PixelStatistics {
  double mean = 0;  // of pixels / 255
  double deviation = 1;
};

PixelStatistics pixel_statistics(const data::ImageSet& set);

enum class Augment { kNone, kShiftFlip };

// Confined; borrows the set. What a sample becomes depends on (seed, epoch, sample) only, never on
// the number of ranks.
class ImageBatches {
 public:
  ImageBatches(const data::ImageSet& set, PixelStatistics statistics, Augment augment,
               std::uint64_t seed);

  std::size_t pixels() const { return static_cast<std::size_t>(set_.rows) * set_.columns; }

  // Writes (pixel / 255 - mean) / deviation to images[i * pixels() ...] and the class to labels[i].
  // Shift-flip: moved by up to kShift pixels each way, black coming in, and mirrored every second
  // time.
  void fill(const std::vector<std::uint64_t>& indices, std::uint64_t epoch, float* images,
            std::int64_t* labels) const;

  static constexpr int kShift = 2;

 private:
  void fill_changed(const std::uint8_t* source, std::uint64_t random, float* image) const;

  const data::ImageSet& set_;
  Augment augment_;
  std::uint64_t seed_;
  float value_[256];
};

}  // namespace syncline::tools
