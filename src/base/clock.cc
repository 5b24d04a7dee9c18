#include "base/clock.h"

#include <cstdio>
#include <ctime>

namespace syncline {

Nanos monotonic_now() {
  timespec ts{};
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return ts.tv_sec * kSecond + ts.tv_nsec;
}

Nanos wall_now() {
  timespec ts{};
  clock_gettime(CLOCK_REALTIME, &ts);
  return ts.tv_sec * kSecond + ts.tv_nsec;
}

std::string seconds_text(Nanos span) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(span) / kSecond);
  return text;
}

Nanos MonotonicClock::now() const { return monotonic_now(); }

}  // namespace syncline
