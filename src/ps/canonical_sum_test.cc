// Bit for bit the plain recursive formula, whoever comes first.
#include "ps/canonical_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>

#include "kernels/reduce.h"
#include "plan/canonical.h"

namespace syncline::ps {
namespace {

constexpr std::size_t kElements = 5;
using Wide = std::optional<std::vector<float>>;

Wide added(const Wide& a, const Wide& b) {
  if (!a.has_value() || !b.has_value()) return a.has_value() ? a : b;
  Wide sum = a;
  for (std::size_t i = 0; i < kElements; ++i) (*sum)[i] += (*b)[i];
  return sum;
}

Wide formula(const std::vector<Wide>& leaves, std::size_t first, std::size_t count) {
  if (count == 1) return leaves[first];
  const auto split = static_cast<std::size_t>(plan::canonical_split(static_cast<int>(count)));
  return added(formula(leaves, first, split), formula(leaves, first + split, count - split));
}

struct Piece {
  int worker;
  int layer;
  Buffer data;
  bool wide;
};

class Case {
 public:
  Case(int workers, int layers, DType type, std::mt19937& random) : type_(type) {
    for (int layer = 0; layer < layers; ++layer) {
      std::vector<Wide> leaves(static_cast<std::size_t>(workers));
      for (int worker = 0; worker < workers; ++worker) {
        // A worker's pushes have layers without gaps.
        const bool before = layer == 0 || has_[worker];
        has_[worker] = before && random() % 3 != 0;
        if (has_[worker]) leaves[static_cast<std::size_t>(worker)] = make(worker, layer, random);
      }
      expected_ = added(expected_, formula(leaves, 0, leaves.size()));
    }
  }

  std::vector<Piece> pieces;
  const Wide& expected() const { return expected_; }
  Buffers buffers;

 private:
  std::vector<float> make(int worker, int layer, std::mt19937& random) {
    std::vector<float> values(kElements);
    for (float& value : values) {
      value = std::ldexp(static_cast<float>(random() % 2001) - 1000.0f,
                         static_cast<int>(random() % 20) - 14);
    }
    const std::size_t width = size_of(type_);
    Buffer data = buffers.take(kElements * width);
    kernels::copy(type_, {data.get(), type_ == DType::kF32}, {values.data(), true}, kElements);
    kernels::copy(type_, {values.data(), true}, {data.get(), type_ == DType::kF32}, kElements);
    const bool wide = type_ != DType::kF32 && random() % 4 == 0;
    if (wide) {
      data = buffers.take(kElements * sizeof(float));
      std::memcpy(data.get(), values.data(), kElements * sizeof(float));
    }
    pieces.push_back({worker, layer, std::move(data), wide});
    return values;
  }

  DType type_;
  std::map<int, bool> has_;
  Wide expected_;
};

void run_case(int workers, int layers, DType type, unsigned seed) {
  std::mt19937 random(seed);
  Case each(workers, layers, type, random);
  std::shuffle(each.pieces.begin(), each.pieces.end(), random);
  CanonicalSum sum(workers, type, kElements, each.buffers);
  for (Piece& piece : each.pieces) sum.add(piece.worker, piece.layer, piece.data, piece.wide);
  each.pieces.clear();
  const Buffer found = sum.finish();
  ASSERT_EQ(found != nullptr, each.expected().has_value());
  if (found == nullptr) return;
  EXPECT_EQ(std::memcmp(found.get(), each.expected()->data(), kElements * sizeof(float)), 0)
      << workers << " workers, " << layers << " layers, seed " << seed;
}

TEST(CanonicalSumOrder, EqualsTheFormula) {
  for (int workers = 1; workers <= 9; ++workers) {
    for (unsigned seed = 0; seed < 200; ++seed) {
      run_case(workers, 1 + static_cast<int>(seed % 3), DType::kF32, seed);
    }
  }
}

TEST(CanonicalSumOrder, SixteenBitsAccumulateInF32) {
  for (const DType type : {DType::kF16, DType::kBF16}) {
    for (int workers = 1; workers <= 9; ++workers) {
      for (unsigned seed = 0; seed < 60; ++seed) run_case(workers, 2, type, seed);
    }
  }
}

TEST(CanonicalSumOrder, AnySubset) {
  for (unsigned present = 1; present < 1u << 6; ++present) {
    std::vector<Wide> leaves(6);
    Buffers buffers;
    CanonicalSum sum(6, DType::kF32, 1, buffers);
    for (unsigned i = 6; i-- > 0;) {
      if ((present >> i & 1) == 0) continue;
      const float value = 1.0f / static_cast<float>(3 + i);
      leaves[i] = std::vector<float>(kElements, value);
      Buffer data = buffers.take(sizeof value);
      std::memcpy(data.get(), &value, sizeof value);
      sum.add(static_cast<int>(i), 0, data, false);
    }
    const Buffer found = sum.finish();
    EXPECT_EQ(*reinterpret_cast<float*>(found.get()), (*formula(leaves, 0, 6))[0]) << present;
  }
}

}  // namespace
}  // namespace syncline::ps
