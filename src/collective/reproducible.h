// Which schedules a reproducible reduction may run.
#pragma once

#include <string>

#include "plan/hosts.h"
#include "syncline/status.h"
#include "syncline/types.h"

namespace syncline::collective {

// Ok if the schedule claims the canonical sum (plan/canonical.h) and the symbolic checker proves
// it. kInvalidArgument says what it evaluates instead and names those that do; kUnsupported where
// the schedule is too large to prove. Pure; takes milliseconds for tens of ranks, seconds for
// hundreds.
Status admit_reproducible(const std::string& name, Collective kind, int ranks, int root,
                          plan::HostOf host_of);

}  // namespace syncline::collective
