#include "session/log.h"

#include <unistd.h>

#include <cstdio>
#include <ctime>

#include "base/env.h"

namespace syncline::session {

void log_line(int rank, const std::string& line) { log_line("rank " + std::to_string(rank), line); }

void log_line(const std::string& process, const std::string& line) {
  static const bool silent = env("SYNCLINE_LOG").value_or("") == "off";
  if (silent) return;
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  std::tm local{};
  ::localtime_r(&now.tv_sec, &local);
  char stamp[64];
  const std::size_t used = std::strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &local);
  std::snprintf(stamp + used, sizeof stamp - used, ".%06ld", now.tv_nsec / 1000);
  const std::string text = std::string(stamp) + " syncline " + process + ": " + line + "\n";
  [[maybe_unused]] const auto ignored = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace syncline::session
