// Faults planted on purpose, to see that the simulator finds them (tests/sim). In every other build
// SYNCLINE_PLANTED() is the constant false.
#pragma once

#ifdef SYNCLINE_PLANTED_BUGS
#include <string_view>

namespace syncline::planted {
// The fault of this process; empty: none.
inline std::string_view active;
}  // namespace syncline::planted
#define SYNCLINE_PLANTED(name) (::syncline::planted::active == #name)
#else
#define SYNCLINE_PLANTED(name) false
#endif
