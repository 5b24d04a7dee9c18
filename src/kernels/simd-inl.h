// Inner loops, included once per instruction set by simd.cc alone (Highway's "-inl.h" convention).
#if defined(SYNCLINE_KERNELS_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SYNCLINE_KERNELS_SIMD_INL_H_
#undef SYNCLINE_KERNELS_SIMD_INL_H_
#else
#define SYNCLINE_KERNELS_SIMD_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace syncline::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Replaces every NaN by the canonical quiet one; leaves integers alone.
template <class D, class V>
HWY_INLINE V canonical(D d, V v) {
  if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
    return hn::IfThenElse(hn::IsNaN(v), hn::Set(d, std::numeric_limits<hn::TFromD<D>>::quiet_NaN()),
                          v);
  } else {
    return v;
  }
}

struct Sum {
  template <class D, class V>
  HWY_INLINE static V apply(D d, V a, V b) {
    return canonical(d, hn::Add(a, b));
  }
};

struct FloatProduct {
  template <class D, class V>
  HWY_INLINE static V apply(D d, V a, V b) {
    return canonical(d, hn::Mul(a, b));
  }
};

// Hardware minima return the second operand for NaN and for zeros of either sign: equal operands
// are combined bitwise (or keeps the sign of -0, and drops it), NaNs are put back.
template <class D, class V>
HWY_INLINE V settle(D d, V a, V b, V chosen, V if_equal) {
  const auto nan = hn::Or(hn::IsNaN(a), hn::IsNaN(b));
  const V result = hn::IfThenElse(hn::Eq(a, b), if_equal, chosen);
  return hn::IfThenElse(nan, hn::Set(d, std::numeric_limits<hn::TFromD<D>>::quiet_NaN()), result);
}

struct Minimum {
  template <class D, class V>
  HWY_INLINE static V apply(D d, V a, V b) {
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
      return settle(d, a, b, hn::Min(a, b), hn::Or(a, b));
    } else {
      return hn::Min(a, b);
    }
  }
};

struct Maximum {
  template <class D, class V>
  HWY_INLINE static V apply(D d, V a, V b) {
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
      return settle(d, a, b, hn::Max(a, b), hn::And(a, b));
    } else {
      return hn::Max(a, b);
    }
  }
};

struct BitAnd {
  template <class D, class V>
  HWY_INLINE static V apply(D, V a, V b) {
    return hn::And(a, b);
  }
};

struct BitOr {
  template <class D, class V>
  HWY_INLINE static V apply(D, V a, V b) {
    return hn::Or(a, b);
  }
};

struct BitXor {
  template <class D, class V>
  HWY_INLINE static V apply(D, V a, V b) {
    return hn::Xor(a, b);
  }
};

// Bytes other than 0 count as true: min(x, 1) normalises.
template <class D, class V>
HWY_INLINE V truth(D d, V v) {
  return hn::Min(v, hn::Set(d, std::uint8_t{1}));
}

struct BoolOr {
  template <class D, class V>
  HWY_INLINE static V apply(D d, V a, V b) {
    return truth(d, hn::Or(a, b));
  }
};

struct BoolAnd {
  template <class D, class V>
  HWY_INLINE static V apply(D d, V a, V b) {
    return hn::And(truth(d, a), truth(d, b));
  }
};

struct BoolXor {
  template <class D, class V>
  HWY_INLINE static V apply(D d, V a, V b) {
    return hn::Xor(truth(d, a), truth(d, b));
  }
};

// Loads and stores without alignment, for plain loops and single lanes.
template <class T>
HWY_INLINE T get(const void* base, std::size_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(base) + index * sizeof(T), sizeof(T));
  return value;
}
template <class T>
HWY_INLINE void put(void* base, std::size_t index, T value) {
  std::memcpy(static_cast<char*>(base) + index * sizeof(T), &value, sizeof(T));
}

template <class Op, class D, class T>
HWY_INLINE void combine(D d, T* dst, const T* a, const T* b) {
  hn::StoreU(Op::apply(d, hn::LoadU(d, a), hn::LoadU(d, b)), d, dst);
}

template <class T, class Op>
void binary(void* dst, const void* a, const void* b, std::size_t count) {
  T* out = static_cast<T*>(dst);
  const T* x = static_cast<const T*>(a);
  const T* y = static_cast<const T*>(b);
  const hn::ScalableTag<T> wide;
  const hn::CappedTag<T, 16 / sizeof(T)> narrow;
  const hn::CappedTag<T, 1> single;
  const std::size_t n = hn::Lanes(wide);
  std::size_t i = 0;
  for (; i + 4 * n <= count; i += 4 * n) {
    const auto r0 = Op::apply(wide, hn::LoadU(wide, x + i), hn::LoadU(wide, y + i));
    const auto r1 = Op::apply(wide, hn::LoadU(wide, x + i + n), hn::LoadU(wide, y + i + n));
    const auto r2 = Op::apply(wide, hn::LoadU(wide, x + i + 2 * n), hn::LoadU(wide, y + i + 2 * n));
    const auto r3 = Op::apply(wide, hn::LoadU(wide, x + i + 3 * n), hn::LoadU(wide, y + i + 3 * n));
    hn::StoreU(r0, wide, out + i);
    hn::StoreU(r1, wide, out + i + n);
    hn::StoreU(r2, wide, out + i + 2 * n);
    hn::StoreU(r3, wide, out + i + 3 * n);
  }
  for (; i + n <= count; i += n) combine<Op>(wide, out + i, x + i, y + i);
  const std::size_t m = hn::Lanes(narrow);
  for (; i + m <= count; i += m) combine<Op>(narrow, out + i, x + i, y + i);
  for (; i < count; ++i) {
    const auto left = hn::Set(single, get<T>(a, i));
    const auto right = hn::Set(single, get<T>(b, i));
    put<T>(dst, i, hn::GetLane(Op::apply(single, left, right)));
  }
}

// Through u64, where overflow is defined and the low bits are those of the wrapped product.
template <class T>
void integer_product(void* dst, const void* a, const void* b, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto x = static_cast<std::uint64_t>(get<T>(a, i));
    const auto y = static_cast<std::uint64_t>(get<T>(b, i));
    put<T>(dst, i, static_cast<T>(x * y));
  }
}

template <class T>
void divide_integer(void* dst, const void* a, std::size_t count, int divisor) {
  using Wide = std::conditional_t<sizeof(T) == 8, std::int64_t, int>;
  for (std::size_t i = 0; i < count; ++i) {
    put<T>(dst, i, static_cast<T>(static_cast<Wide>(get<T>(a, i)) / divisor));
  }
}

// v / operand or v * operand; separate, since multiplying by an inverse rounds differently.
template <bool kDivide, class D, class V, class T>
HWY_INLINE V apply_scalar(D d, V v, T operand) {
  const auto s = hn::Set(d, operand);
  return canonical(d, kDivide ? hn::Div(v, s) : hn::Mul(v, s));
}

template <class T, bool kDivide>
HWY_INLINE void with_scalar(void* dst, const void* a, std::size_t count, T operand) {
  T* out = static_cast<T*>(dst);
  const T* x = static_cast<const T*>(a);
  const hn::ScalableTag<T> wide;
  const hn::CappedTag<T, 1> single;
  const std::size_t n = hn::Lanes(wide);
  std::size_t i = 0;
  for (; i + n <= count; i += n) {
    hn::StoreU(apply_scalar<kDivide>(wide, hn::LoadU(wide, x + i), operand), wide, out + i);
  }
  for (; i < count; ++i) {
    const auto v = hn::Set(single, get<T>(a, i));
    put<T>(dst, i, hn::GetLane(apply_scalar<kDivide>(single, v, operand)));
  }
}

template <class T>
void divide_float(void* dst, const void* a, std::size_t count, int divisor) {
  with_scalar<T, true>(dst, a, count, static_cast<T>(divisor));
}

template <class T>
void scale_float(void* dst, const void* a, std::size_t count, double factor) {
  with_scalar<T, false>(dst, a, count, static_cast<T>(factor));
}

inline void normalise(void* dst, const void* a, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) put<std::uint8_t>(dst, i, get<std::uint8_t>(a, i) != 0);
}

}  // namespace syncline::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SYNCLINE_KERNELS_SIMD_INL_H_
