// Third pass of the checker: what the steps compute, symbolically, and that they do not race.
#pragma once

#include "plan/check/order.h"
#include "plan/check/program.h"

namespace syncline::plan {

// Which buffers of a rank with kOut storage are one memory.
struct Aliasing {
  bool in_is_out = false;   // an in-place call
  bool acc_is_out = false;  // accumulate type = element type
};

// Results (each contribution once, finished once, same everywhere, of a reduction the canonical sum
// where `canonical`) and races under one aliasing. For a barrier: causality instead of values.
Status check_values(const Program& program, const Order& order, Aliasing aliasing, bool canonical);

Status check_barrier(const Program& program, const Order& order);

}  // namespace syncline::plan
