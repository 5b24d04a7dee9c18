// TensorView: borrowed memory of a tensor, dense and row-major.
#ifndef SYNCLINE_TENSOR_VIEW_H_
#define SYNCLINE_TENSOR_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "syncline/types.h"

namespace syncline {

enum class DeviceKind : std::uint8_t { kCpu = 0, kCuda = 1 };

struct Device {
  DeviceKind kind = DeviceKind::kCpu;
  int index = 0;
};

template <class T>
constexpr DType dtype_of() {
  using U = std::remove_cv_t<T>;
  static_assert(std::is_arithmetic_v<U>, "pass DType explicitly for 16-bit floats");
  if constexpr (std::is_same_v<U, bool>)
    return DType::kBool;
  else if constexpr (std::is_same_v<U, float>)
    return DType::kF32;
  else if constexpr (std::is_same_v<U, double>)
    return DType::kF64;
  else if constexpr (sizeof(U) == 8)
    return DType::kI64;
  else if constexpr (sizeof(U) == 4)
    return DType::kI32;
  else if constexpr (sizeof(U) == 2)
    return DType::kI16;
  else if constexpr (std::is_unsigned_v<U>)
    return DType::kU8;
  else
    return DType::kI8;
}

// Borrowed, dense, read-only memory: the caller keeps it alive and unchanged until the Work
// completes.
class ConstTensorView {
 public:
  ConstTensorView() = default;
  ConstTensorView(const void* data, std::size_t count, DType type, Device device = {})
      : data_(const_cast<void*>(data)), count_(count), type_(type), device_(device) {}
  template <class T>
  ConstTensorView(const T* data, std::size_t count)
      : ConstTensorView(static_cast<const void*>(data), count, dtype_of<T>()) {}

  const void* data() const { return data_; }
  std::size_t count() const { return count_; }  // elements
  std::size_t bytes() const { return count_ * size_of(type_); }
  DType type() const { return type_; }
  Device device() const { return device_; }

 protected:
  void* data_ = nullptr;
  std::size_t count_ = 0;
  DType type_ = DType::kF32;
  Device device_{};
};

// The same, writable: nobody else may touch it until the Work completes.
class TensorView : public ConstTensorView {
 public:
  TensorView() = default;
  TensorView(void* data, std::size_t count, DType type, Device device = {})
      : ConstTensorView(data, count, type, device) {}
  template <class T>
  TensorView(T* data, std::size_t count) : ConstTensorView(data, count) {
    static_assert(!std::is_const_v<T>, "use ConstTensorView");
  }
  void* data() const { return data_; }
};

}  // namespace syncline

#endif  // SYNCLINE_TENSOR_VIEW_H_
