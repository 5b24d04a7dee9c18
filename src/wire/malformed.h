// The one sentence for a message that does not decode.
#pragma once

#include <cstddef>
#include <string>

#include "syncline/status.h"

namespace syncline::wire {

inline Status malformed(const char* what, std::size_t bytes) {
  return Status(Code::kCorrupt, std::string("malformed ") + what + " message of " +
                                    std::to_string(bytes) + " bytes from a peer");
}

}  // namespace syncline::wire
