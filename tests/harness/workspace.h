// Guarded: memory of a tensor between two fences.
#pragma once

#include <cstddef>
#include <vector>

#include "syncline/tensor_view.h"
#include "tests/harness/inputs.h"

namespace syncline::harness {

// Externally synchronised. Reused from case to case, so that a large matrix does not allocate.
class Guarded {
 public:
  // Room for `count` elements, `skew` elements off the natural alignment; the content is garbage.
  void reset(DType type, std::size_t count, std::size_t skew);
  // The same, holding elements [begin, begin + count) of the repeated period.
  void reset(const Bytes& period, DType type, std::size_t begin, std::size_t count,
             std::size_t skew);

  std::byte* data() { return data_; }
  std::size_t count() const { return count_; }
  TensorView view() const { return {data_, count_, type_}; }
  // Elements [begin, begin + count).
  TensorView part(std::size_t begin, std::size_t count) const {
    return {data_ + begin * size_of(type_), count, type_};
  }

  bool fences_intact() const;
  // Index of the first element of [begin, begin + count) that differs from the repeated period,
  // read from `phase` on; count if none does.
  std::size_t first_difference(const Bytes& period, std::size_t phase, std::size_t begin,
                               std::size_t count) const;
  bool equals(const Bytes& period, std::size_t phase = 0) const {
    return first_difference(period, phase, 0, count_) == count_;
  }
  // Still the garbage of reset().
  bool untouched() const { return equals(garbage_period()); }
  static const Bytes& garbage_period();

 private:
  std::vector<std::byte> memory_;
  std::byte* data_ = nullptr;
  std::size_t count_ = 0;
  DType type_ = DType::kU8;
};

}  // namespace syncline::harness
