#include "ps/placement.h"

#include <algorithm>
#include <numeric>

#include "base/assert.h"
#include "ps/update.h"

namespace syncline::ps {

Placement::Placement(int servers, std::size_t bytes_on_the_way)
    : loads_(static_cast<std::size_t>(servers)) {
  SYNCLINE_ASSERT(servers > 0, "a placement needs servers");
  slice_bytes_ = std::max(bytes_on_the_way / loads_.size(), kSliceBytesMin);
}

// Every server gets as many slices of a large tensor, and of one length, so that each is balanced
// by itself; a tensor of less than a slice for each server is cut in whole pieces of
// kSliceBytesMin. The last slice takes what remains.
std::size_t Placement::slice_elements(std::size_t count, std::size_t element_bytes) const {
  constexpr std::size_t kAlign = kNormPiece;
  const auto rounded = [](std::size_t n, std::size_t to) { return (n + to - 1) / to * to; };
  const std::size_t piece = std::max<std::size_t>(1, kSliceBytesMin / element_bytes);
  const std::size_t usual = std::max<std::size_t>(1, slice_bytes_ / element_bytes / piece) * piece;
  const std::size_t share = (count + loads_.size() - 1) / loads_.size();
  if (share <= piece) return rounded(share, piece);
  const std::size_t most = std::max<std::size_t>(1, kSlicesMax / loads_.size());
  const std::size_t slices = loads_.size() * std::min(most, (share + usual - 1) / usual);
  return rounded((count + slices - 1) / slices, kAlign);
}

int Placement::least_loaded() const {
  return static_cast<int>(std::min_element(loads_.begin(), loads_.end()) - loads_.begin());
}

std::vector<PlacedSlice> Placement::add(std::size_t count, std::size_t element_bytes,
                                        std::optional<int> server) {
  SYNCLINE_ASSERT(element_bytes > 0, "elements have a size");
  if (!server.has_value() && would_tilt(count * element_bytes)) return level(count, element_bytes);
  std::vector<PlacedSlice> slices;
  const std::size_t step = slice_elements(count, element_bytes);
  for (std::size_t begin = 0; begin < count; begin += step) {
    PlacedSlice slice{begin, std::min(step, count - begin), server.value_or(least_loaded())};
    loads_[static_cast<std::size_t>(slice.server)] += slice.count * element_bytes;
    slices.push_back(slice);
  }
  return slices;
}

// A tensor that is too small to be balanced by itself, and too large to go to one server.
bool Placement::would_tilt(std::size_t bytes) const {
  if (bytes < kTiltBytesMin || bytes > loads_.size() * kSliceBytesMin) return false;
  const double mean = mean_with(bytes);
  const std::size_t piece = std::min(bytes, kSliceBytesMin);
  return static_cast<double>(*std::min_element(loads_.begin(), loads_.end()) + piece) >
         kTiltMax * mean;
}

double Placement::mean_with(std::size_t bytes) const {
  return std::accumulate(loads_.begin(), loads_.end(), static_cast<double>(bytes)) /
         static_cast<double>(loads_.size());
}

// Each server below the new mean gets what it lacks, the emptiest first.
std::vector<PlacedSlice> Placement::level(std::size_t count, std::size_t element_bytes) {
  const double mean = mean_with(count * element_bytes);
  std::vector<PlacedSlice> slices;
  for (std::size_t begin = 0; begin < count;) {
    const int server = least_loaded();
    std::size_t& load = loads_[static_cast<std::size_t>(server)];
    const double lacks = (mean - static_cast<double>(load)) / static_cast<double>(element_bytes);
    const auto pieces = static_cast<std::size_t>(std::max(lacks / kNormPiece + 0.5, 1.0));
    std::size_t take = pieces * kNormPiece;
    if (begin + take + kNormPiece > count) take = count - begin;
    slices.push_back({begin, take, server});
    load += take * element_bytes;
    begin += take;
  }
  return slices;
}

std::vector<PlacedSlice> Placement::add_whole(std::size_t count, std::size_t element_bytes,
                                              std::optional<int> server) {
  if (count == 0) return {};
  const int at = server.value_or(least_loaded());
  loads_[static_cast<std::size_t>(at)] += count * element_bytes;
  return {{0, count, at}};
}

}  // namespace syncline::ps
