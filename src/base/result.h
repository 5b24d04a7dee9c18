// Result<T>: a value or the Status that explains its absence.
#pragma once

#include <utility>
#include <variant>

#include "base/assert.h"
#include "syncline/status.h"

namespace syncline {

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}        // NOLINT: implicit by design
  Result(Status status) : state_(std::move(status)) {  // NOLINT
    SYNCLINE_ASSERT(!std::get<Status>(state_).ok(), "a Result without value needs an error");
  }

  bool ok() const { return std::holds_alternative<T>(state_); }
  Status status() const { return ok() ? Status() : std::get<Status>(state_); }
  T& value() & {
    SYNCLINE_ASSERT(ok(), "value() of a failed Result");
    return std::get<T>(state_);
  }
  const T& value() const& {
    SYNCLINE_ASSERT(ok(), "value() of a failed Result");
    return std::get<T>(state_);
  }
  T&& value() && { return std::move(value()); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace syncline
