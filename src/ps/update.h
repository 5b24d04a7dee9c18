// Update: what an optimiser does to a slice of a weight. Pure arithmetic in f32, the same bits on
// every processor and for every cut of a tensor into slices; hyper-parameters are rounded to f32
// once.
//
// One step of a tensor:
//   advance() every slice                   state, and of LARS and LAMB the sums of squares
//   trust_ratio() of all sums, in order     1 for the other kinds
//   apply() every slice
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "syncline/optim.h"

namespace syncline::ps {

inline constexpr std::size_t kSlotsMax = 3;

// Where needs_norms(), slices begin at multiples of so many elements of their tensor: squares are
// summed in such pieces, and the sums in their order, so that a norm does not depend on the cut.
inline constexpr std::size_t kNormPiece = 1 << 10;

// Externally synchronised. Nothing overlaps.
struct Slice {
  std::size_t count = 0;
  float* weights = nullptr;
  std::array<float*, kSlotsMax> slots{};  // slot_count() of them, `count` elements each
  const float* gradient = nullptr;        // aggregated and scaled
};

struct SquareSums {
  double weights = 0;
  double update = 0;  // of the gradient (LARS) or of Adam's step (LAMB)
};

// kInvalidArgument says which number is impossible: rates and decays below 0, betas outside [0, 1),
// not finite, Nesterov without momentum or with dampening.
Status check(const optim::Optimizer& optimizer);

// kInvalidArgument: a custom update that this process does not know.
Status check_known(const optim::Optimizer& optimizer);

// f32 values of state for each weight; of RowwiseAdagrad for each row.
std::size_t slot_count(const optim::Optimizer& optimizer);
// What slots hold before the first step.
float initial_slot_value(const optim::Optimizer& optimizer);
// True where slices of a tensor depend on each other: the sums of all of them come first.
bool needs_norms(const optim::Optimizer& optimizer);

// `step` counts from 1. Where needs_norms(), appends the sums of each piece of the slice.
void advance(const optim::Optimizer& optimizer, std::uint64_t step, const Slice& slice,
             std::vector<SquareSums>& sums);
// Factor of the rate from the sums of a tensor's pieces.
double trust_ratio(const optim::Optimizer& optimizer, std::span<const SquareSums> sums);
void apply(const optim::Optimizer& optimizer, std::uint64_t step, double trust, const Slice& slice);

// RowwiseAdagrad: one row of `count` weights with its own sum.
void update_row(const optim::Optimizer& optimizer, float* weights, float& sum,
                const float* gradient, std::size_t count);

}  // namespace syncline::ps
