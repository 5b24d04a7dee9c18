// Ticks: the processor's counter. It costs a third of a clock read and needs no kernel; the pairs
// in a flight record turn it into time.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "base/flight_format.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace syncline {

#if defined(__x86_64__)
inline constexpr flight::Counter kTickCounter = flight::Counter::kTimeStamp;
inline std::uint64_t ticks_now() { return __rdtsc(); }
#elif defined(__aarch64__)
inline constexpr flight::Counter kTickCounter = flight::Counter::kVirtual;
inline std::uint64_t ticks_now() {
  std::uint64_t ticks;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
}
#else
inline constexpr flight::Counter kTickCounter = flight::Counter::kNanoseconds;
inline std::uint64_t ticks_now() { return static_cast<std::uint64_t>(monotonic_now()); }
#endif

}  // namespace syncline
