// Checks of settings that a launcher hands on: a wrong name is one line here instead of one a rank.
#pragma once

#include <string>

#include "syncline/status.h"

namespace syncline::tools {

// "" and "auto" are fine. kInvalidArgument lists the names there are.
Status check_schedule(const std::string& name);

// "" is fine. kInvalidArgument or kUnsupported.
Status check_transports(const std::string& list);

}  // namespace syncline::tools
