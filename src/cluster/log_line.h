// Where this layer's log lines go: the session decides. May be empty (silent). Called on the thread
// that runs the caller's poller; must not block.
#pragma once

#include <functional>
#include <string>

namespace syncline::cluster {

using LogLine = std::function<void(const std::string& line)>;

inline void log_to(const LogLine& log, const std::string& line) {
  if (log) log(line);
}

}  // namespace syncline::cluster
