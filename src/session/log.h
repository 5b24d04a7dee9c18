// Log lines of the library: one line each on standard error.
#pragma once

#include <string>

namespace syncline::session {

// "2026-11-29T14:00:00.123456 syncline rank 3: <line>"; `process` is "rank 3" or "server 1".
// SYNCLINE_LOG=off silences it. Thread-safe.
void log_line(const std::string& process, const std::string& line);
void log_line(int rank, const std::string& line);

}  // namespace syncline::session
