// The inner loops of one instruction set, as plain function pointers. Private to kernels/.
#pragma once

#include <cstddef>

#include "syncline/types.h"

namespace syncline::kernels {

// Pointers need no alignment. dst may equal an input where widths agree; nothing else may overlap.
using BinaryKernel = void (*)(void* dst, const void* a, const void* b, std::size_t count);
using ConvertKernel = void (*)(void* dst, const void* a, std::size_t count);
using DivideKernel = void (*)(void* dst, const void* a, std::size_t count, int divisor);
using ScaleKernel = void (*)(void* dst, const void* a, std::size_t count, double factor);

// immutable. Entries that make no sense are null; f16 and bf16 have widen, narrow and
// half_sum only, the f32 entries do the rest. Callers put the floating point environment in order.
struct KernelTable {
  const char* name;
  BinaryKernel binary[kDTypeCount][kReduceOpCount];
  DivideKernel divide[kDTypeCount];   // accumulate types; floats round once, integers toward zero
  ScaleKernel scale[kDTypeCount];     // f32, f64
  ConvertKernel widen[kDTypeCount];   // f16, bf16 -> f32; NaN becomes canonical
  ConvertKernel narrow[kDTypeCount];  // f32 -> f16, bf16, nearest even; NaN becomes canonical
  // f16, bf16, by whether dst, a and b are accumulators (f32).
  BinaryKernel half_sum[kDTypeCount][2][2][2];
  ConvertKernel normalise;  // bool bytes -> 0 or 1
  ConvertKernel stream;     // bytes, by non-temporal stores; dst aligned to a vector
};

// The table for this CPU, chosen on the first call. Thread-safe.
const KernelTable& kernel_table();

}  // namespace syncline::kernels
