// RefusalLog: one line per source and ten seconds about connections that were turned away, however
// many a port scanner makes.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/clock.h"
#include "cluster/log_line.h"

namespace syncline::cluster {

// Confined. Remembers at most kSourcesMax sources.
class RefusalLog {
 public:
  static constexpr Nanos kInterval = 10 * kSecond;
  static constexpr std::size_t kSourcesMax = 256;

  RefusalLog(LogLine log, std::string listener)
      : log_(std::move(log)), listener_(std::move(listener)) {}

  // `source`: host without port. `why`: one line.
  void note(Nanos now, const std::string& source, const std::string& why);
  std::uint64_t total() const { return total_; }

 private:
  struct Source {
    Nanos last = 0;
    std::uint64_t suppressed = 0;
  };
  LogLine log_;
  std::string listener_;
  std::map<std::string, Source> sources_;
  std::uint64_t total_ = 0;
};

}  // namespace syncline::cluster
