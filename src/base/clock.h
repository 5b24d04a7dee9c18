// Clock: injected time, so that protocol cores run under virtual time. Monotonic but for
// wall_now().
#pragma once

#include <cstdint>
#include <string>

namespace syncline {

using Nanos = std::int64_t;
inline constexpr Nanos kMicrosecond = 1000;
inline constexpr Nanos kMillisecond = 1000 * kMicrosecond;
inline constexpr Nanos kSecond = 1000 * kMillisecond;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Nanos now() const = 0;
};

// CLOCK_MONOTONIC. Thread-safe.
class MonotonicClock final : public Clock {
 public:
  Nanos now() const override;
};

Nanos monotonic_now();

// Time of day, since 1970: for people who read records, never for deadlines.
Nanos wall_now();

// "2.1 s", for messages.
std::string seconds_text(Nanos span);

}  // namespace syncline
