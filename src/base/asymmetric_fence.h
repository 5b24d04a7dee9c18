// A fence whose price the rare side pays: light_fence() against heavy_fence(), also between
// processes of one host that share memory.
//
// Use (Dekker): the frequent side stores A, light_fence(), loads B; the rare side stores B,
// heavy_fence(), loads A. One of the two sees the other's store. With membarrier(2) a light fence
// is no instruction at all; without it both are full fences.
#pragma once

#include <atomic>

namespace syncline {

// True once this process takes part in membarrier(2).
bool membarrier_is_registered();

inline void light_fence() {
  static const bool registered = membarrier_is_registered();
  if (registered) {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  } else {
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
}

// Interrupts the other cores that run ranks: microseconds.
void heavy_fence();

}  // namespace syncline
