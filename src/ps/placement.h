// Placement: which server holds which part of each tensor. Pure; the same calls in the same order
// give the same result everywhere, so one process decides and tells the others only the order.
//
// A tensor is cut into slices, so that pulls can start while pushes still arrive and so that large
// tensors spread over all servers; a tensor that is no larger than a slice stays whole, unless
// that would leave a server with more than kTiltMax of the mean: then it fills what the others
// lack. A worker sends to all servers at once, so that the more there are the longer a slice is on
// its way: they share kSliceBytes. Each slice goes to the server with the fewest bytes so far (the
// lowest of equals): the largest load is at most one slice above the smallest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace syncline::ps {

// Elements [begin, begin + count) of a tensor.
struct PlacedSlice {
  std::size_t begin = 0;
  std::size_t count = 0;
  int server = 0;

  bool operator==(const PlacedSlice&) const = default;
};

// Confined.
class Placement {
 public:
  static constexpr std::size_t kSliceBytes = 512 << 10;
  // Where servers' links are the bottleneck: sums of small slices are there sooner.
  static constexpr std::size_t kNarrowSliceBytes = 128 << 10;
  // Below this a message costs more than it carries.
  static constexpr std::size_t kSliceBytesMin = 64 << 10;
  // Tensors below this are not cut for balance: they balance each other.
  static constexpr std::size_t kTiltBytesMin = 16 << 10;
  static constexpr double kTiltMax = 1.03;  // largest load over the mean that needs no cut
  // Of one tensor, so that one request describes them all: the slices of huge ones are longer.
  static constexpr std::size_t kSlicesMax = 1500;

  explicit Placement(int servers, std::size_t bytes_on_the_way = kSliceBytes);

  // The next tensor, of `count` elements of `element_bytes`. `server`: all of it there, by hand.
  // No elements: no slices.
  std::vector<PlacedSlice> add(std::size_t count, std::size_t element_bytes,
                               std::optional<int> server = std::nullopt);

  // The same in one slice.
  std::vector<PlacedSlice> add_whole(std::size_t count, std::size_t element_bytes,
                                     std::optional<int> server = std::nullopt);

  const std::vector<std::size_t>& bytes_by_server() const { return loads_; }

 private:
  std::size_t slice_elements(std::size_t count, std::size_t element_bytes) const;
  bool would_tilt(std::size_t bytes) const;
  double mean_with(std::size_t bytes) const;
  std::vector<PlacedSlice> level(std::size_t count, std::size_t element_bytes);
  int least_loaded() const;

  std::size_t slice_bytes_;
  std::vector<std::size_t> loads_;
};

}  // namespace syncline::ps
