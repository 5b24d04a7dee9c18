// SplitMix64 (Steele, Lea and Flood, 2014): each number follows from its position alone.
#pragma once

#include <cstdint>

namespace syncline {

inline constexpr std::uint64_t kSplitmixStep = 0x9e3779b97f4a7c15;

// The output function: number i of stream `seed` is splitmix(seed + i * kSplitmixStep).
constexpr std::uint64_t splitmix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace syncline
