// Elements of ResNet-50's 161 tensors: convolutions with their two vectors of BatchNorm, and the
// classifier.
#pragma once

#include <cstddef>
#include <vector>

namespace syncline::harness {

inline std::vector<std::size_t> resnet50_counts() {
  std::vector<std::size_t> counts;
  const auto layer = [&](std::size_t in, std::size_t out, std::size_t kernel) {
    for (const std::size_t count : {in * out * kernel * kernel, out, out}) counts.push_back(count);
  };
  layer(3, 64, 7);
  std::size_t in = 64;
  constexpr std::size_t kWidths[] = {64, 128, 256, 512};
  constexpr int kDepths[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage) {
    for (int block = 0; block < kDepths[stage]; ++block) {
      const std::size_t width = kWidths[stage];
      layer(in, width, 1);
      layer(width, width, 3);
      layer(width, 4 * width, 1);
      if (block == 0) layer(in, 4 * width, 1);
      in = 4 * width;
    }
  }
  for (const std::size_t count : {2048 * 1000, 1000}) counts.push_back(count);
  return counts;
}

}  // namespace syncline::harness
