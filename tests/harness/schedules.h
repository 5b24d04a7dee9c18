// Which schedules a test has to run. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "syncline/types.h"

namespace syncline::harness {

// Names of the schedules that support the collective over so many ranks.
std::vector<std::string> schedules_for(Collective kind, int ranks);
// Those of them that claim to evaluate the canonical sum.
std::vector<std::string> canonical_schedules(Collective kind, int ranks);

}  // namespace syncline::harness
