// Finds the tensors in whatever a forward returns.
#ifndef SYNCLINE_TORCH_OUTPUTS_H_
#define SYNCLINE_TORCH_OUTPUTS_H_

#include <ATen/core/Tensor.h>

#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

namespace syncline {

using TensorVisitor = std::function<void(const at::Tensor&)>;

namespace torch_detail {

template <class T, class = void>
struct HasUserVisit : std::false_type {};
template <class T>
struct HasUserVisit<T, std::void_t<decltype(visit_tensors(std::declval<const T&>(),
                                                          std::declval<const TensorVisitor&>()))>>
    : std::true_type {};

template <class T, class = void>
struct HasValue : std::false_type {};
template <class T>
struct HasValue<T, std::void_t<decltype(std::declval<const T&>().value())>> : std::true_type {};

template <class T, class = void>
struct CanBeEmpty : std::false_type {};
template <class T>
struct CanBeEmpty<T, std::void_t<decltype(std::declval<const T&>().has_value())>> : std::true_type {
};

template <class T, class = void>
struct IsTuple : std::false_type {};
template <class T>
struct IsTuple<T, std::void_t<decltype(std::tuple_size<T>::value)>> : std::true_type {};

template <class T, class = void>
struct IsRange : std::false_type {};
template <class T>
struct IsRange<T, std::void_t<decltype(std::begin(std::declval<const T&>())),
                              decltype(std::end(std::declval<const T&>()))>> : std::true_type {};

}  // namespace torch_detail

// Calls `visit` for each tensor in `value`: a tensor, optional, tuple, pair, vector, map, torch
// OrderedDict, nested as deep as you like. For an own type write, in its namespace,
//   void visit_tensors(const MyOutput& o, const syncline::TensorVisitor& visit) { visit(o.logits);
//   }
// Other values hold no tensors.
template <class T>
void for_each_tensor(const T& value, const TensorVisitor& visit) {
  using namespace torch_detail;
  if constexpr (std::is_convertible_v<const T&, const at::Tensor&>) {
    visit(value);
  } else if constexpr (HasUserVisit<T>::value) {
    visit_tensors(value, visit);
  } else if constexpr (CanBeEmpty<T>::value && HasValue<T>::value) {
    if (value.has_value()) for_each_tensor(value.value(), visit);
  } else if constexpr (IsTuple<T>::value) {
    std::apply([&](const auto&... items) { (for_each_tensor(items, visit), ...); }, value);
  } else if constexpr (IsRange<T>::value) {
    if constexpr (!std::is_arithmetic_v<std::decay_t<decltype(*std::begin(value))>>) {
      for (const auto& item : value) for_each_tensor(item, visit);
    }
  } else if constexpr (HasValue<T>::value) {
    for_each_tensor(value.value(), visit);
  }
}

}  // namespace syncline

#endif  // SYNCLINE_TORCH_OUTPUTS_H_
