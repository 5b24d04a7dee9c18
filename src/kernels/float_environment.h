// A guard that gives kernels the default floating point environment whatever the caller has set.
#pragma once

#include <cstdint>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace syncline::kernels {

// confined: lives on the stack of one call. Clears flush-to-zero and denormals-are-zero, rounds to
// nearest, masks exceptions; restores the caller's settings. Costs one load and a compare where
// they are the default already, as almost always. The work must sit behind a call the compiler
// cannot see through, or it could move across the change.
class FloatEnvironment {
 public:
  FloatEnvironment() : saved_(read()), changed_((saved_ & kControl) != kDefault) {
    if (changed_) write(kDefault);
  }
  ~FloatEnvironment() {
    if (changed_) write(saved_);
  }
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
#if defined(__SSE__)
  using Register = unsigned;
  static constexpr Register kControl = 0xffc0;  // all but the sticky exception flags
  static constexpr Register kDefault = 0x1f80;
  static Register read() { return _mm_getcsr(); }
  static void write(Register value) { _mm_setcsr(value); }
#elif defined(__aarch64__)
  using Register = std::uint64_t;
  static constexpr Register kControl = 0x07ff9f00;  // AHP, DN, FZ, rounding mode, traps
  static constexpr Register kDefault = 0;
  static Register read() {
    Register value;
    asm volatile("mrs %0, fpcr" : "=r"(value));
    return value;
  }
  static void write(Register value) { asm volatile("msr fpcr, %0" : : "r"(value) : "memory"); }
#else
  using Register = unsigned;
  static constexpr Register kControl = 0;
  static constexpr Register kDefault = 0;
  static Register read() { return 0; }
  static void write(Register) {}
#endif

  Register saved_;
  bool changed_;
};

}  // namespace syncline::kernels
