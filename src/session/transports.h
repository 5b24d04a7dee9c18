// Which transports a session may use.
#pragma once

#include <string>

#include "base/result.h"

namespace syncline::session {

struct Transports {
  bool shm = true;
  bool tcp = true;
};

// "" = all, else a comma list of "shm" and "tcp". kUnsupported for names that are planned (ucx,
// cuda), kInvalidArgument for others.
Result<Transports> parse_transports(const std::string& list);

}  // namespace syncline::session
