// Inner loops of the 16-bit floats; included like simd-inl.h, and after it.
#if defined(SYNCLINE_KERNELS_HALF_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SYNCLINE_KERNELS_HALF_INL_H_
#undef SYNCLINE_KERNELS_HALF_INL_H_
#else
#define SYNCLINE_KERNELS_HALF_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/half.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace syncline::kernels::HWY_NAMESPACE {

// Elsewhere Highway emulates the f16 conversion without rounding to nearest even.
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2) || HWY_ARCH_ARM_A64
#define SYNCLINE_HARDWARE_F16 1
#else
#define SYNCLINE_HARDWARE_F16 0
#endif

// How a vector of f32 is read from and written to memory. NaNs read keep their payload; those
// written must be canonical.
struct AsF32 {
  using Element = float;
  template <class D>
  HWY_INLINE static hn::Vec<D> load(D d, const void* p) {
    return hn::LoadU(d, static_cast<const float*>(p));
  }
  template <class D>
  HWY_INLINE static void store(D d, hn::Vec<D> v, void* p) {
    hn::StoreU(v, d, static_cast<float*>(p));
  }
};

struct AsBF16 {
  using Element = std::uint16_t;
  template <class D>
  HWY_INLINE static hn::Vec<D> load(D d, const void* p) {
    const hn::RebindToUnsigned<D> d32;
    const hn::Rebind<std::uint16_t, D> d16;
    const auto bits = hn::PromoteTo(d32, hn::LoadU(d16, static_cast<const std::uint16_t*>(p)));
    return hn::BitCast(d, hn::ShiftLeft<16>(bits));
  }
  template <class D>
  HWY_INLINE static void store(D, hn::Vec<D> v, void* p) {
    const hn::RebindToUnsigned<D> d32;
    const hn::RebindToSigned<D> signed32;
    const hn::Rebind<std::uint16_t, D> d16;
    const auto bits = hn::BitCast(d32, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1u));
    const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(d32, 0x7fffu)));
    const auto upper = hn::BitCast(signed32, hn::ShiftRight<16>(rounded));
    hn::StoreU(hn::DemoteTo(d16, upper), d16, static_cast<std::uint16_t*>(p));
  }
};

struct AsF16 {
  using Element = std::uint16_t;
#if SYNCLINE_HARDWARE_F16
  template <class D>
  HWY_INLINE static hn::Vec<D> load(D d, const void* p) {
    const hn::Rebind<hwy::float16_t, D> d16;
    return hn::PromoteTo(d, hn::LoadU(d16, static_cast<const hwy::float16_t*>(p)));
  }
  template <class D>
  HWY_INLINE static void store(D, hn::Vec<D> v, void* p) {
    const hn::Rebind<hwy::float16_t, D> d16;
    hn::StoreU(hn::DemoteTo(d16, v), d16, static_cast<hwy::float16_t*>(p));
  }
#else
  template <class D>
  HWY_INLINE static hn::Vec<D> load(D d, const void* p) {
    HWY_ALIGN float lanes[hn::MaxLanes(D())];
    for (std::size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = f16_to_float(get<Element>(p, i));
    return hn::Load(d, lanes);
  }
  template <class D>
  HWY_INLINE static void store(D d, hn::Vec<D> v, void* p) {
    HWY_ALIGN float lanes[hn::MaxLanes(D())];
    hn::Store(v, d, lanes);
    for (std::size_t i = 0; i < hn::Lanes(d); ++i) put<Element>(p, i, float_to_f16(lanes[i]));
  }
#endif
};
#undef SYNCLINE_HARDWARE_F16

// dst = a + b without a detour through memory; each in its own format.
template <class To, class A, class B>
void mixed_sum(void* dst, const void* a, const void* b, std::size_t count) {
  const hn::ScalableTag<float> d;
  const std::size_t n = hn::Lanes(d);
  auto* out = static_cast<char*>(dst);
  const auto* x = static_cast<const char*>(a);
  const auto* y = static_cast<const char*>(b);
  constexpr std::size_t to = sizeof(typename To::Element);
  constexpr std::size_t from_a = sizeof(typename A::Element);
  constexpr std::size_t from_b = sizeof(typename B::Element);
  std::size_t i = 0;
  for (; i + n <= count; i += n) {
    To::store(d, Sum::apply(d, A::load(d, x + i * from_a), B::load(d, y + i * from_b)),
              out + i * to);
  }
  if (i == count) return;
  // Whole vectors on the stack for the rest: the unused lanes hold zeros.
  const std::size_t rest = count - i;
  alignas(64) char left[hn::MaxLanes(d) * from_a] = {};
  alignas(64) char right[hn::MaxLanes(d) * from_b] = {};
  alignas(64) char sum[hn::MaxLanes(d) * to];
  std::memcpy(left, x + i * from_a, rest * from_a);
  std::memcpy(right, y + i * from_b, rest * from_b);
  To::store(d, Sum::apply(d, A::load(d, left), B::load(d, right)), sum);
  std::memcpy(out + i * to, sum, rest * to);
}

// dst = a, with NaNs made canonical.
template <class To, class From>
void convert(void* dst, const void* a, std::size_t count) {
  const hn::ScalableTag<float> d;
  const std::size_t n = hn::Lanes(d);
  auto* out = static_cast<char*>(dst);
  const auto* x = static_cast<const char*>(a);
  constexpr std::size_t to = sizeof(typename To::Element);
  constexpr std::size_t from = sizeof(typename From::Element);
  std::size_t i = 0;
  for (; i + n <= count; i += n) {
    To::store(d, canonical(d, From::load(d, x + i * from)), out + i * to);
  }
  if (i == count) return;
  alignas(64) char whole[hn::MaxLanes(d) * from] = {};
  alignas(64) char result[hn::MaxLanes(d) * to];
  std::memcpy(whole, x + i * from, (count - i) * from);
  To::store(d, canonical(d, From::load(d, whole)), result);
  std::memcpy(out + i * to, result, (count - i) * to);
}

}  // namespace syncline::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SYNCLINE_KERNELS_HALF_INL_H_
