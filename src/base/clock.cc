#include "base/clock.h"

#include <ctime>

namespace syncline {

Nanos monotonic_now() {
  timespec ts{};
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return ts.tv_sec * kSecond + ts.tv_nsec;
}

Nanos MonotonicClock::now() const { return monotonic_now(); }

}  // namespace syncline
