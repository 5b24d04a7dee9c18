#include "cluster/refusal_log.h"

namespace syncline::cluster {

void RefusalLog::note(Nanos now, const std::string& source, const std::string& why) {
  ++total_;
  // Beyond the limit all further sources share one entry.
  const bool room = sources_.size() < kSourcesMax || sources_.count(source) != 0;
  const auto [it, fresh] = sources_.try_emplace(room ? source : std::string("other sources"));
  Source& entry = it->second;
  if (!fresh && now - entry.last < kInterval) {
    ++entry.suppressed;
    return;
  }
  std::string line = "refused a connection from " + it->first + " on " + listener_ + ": " + why;
  if (entry.suppressed > 0) line += " (and " + std::to_string(entry.suppressed) + " more before)";
  entry = {now, 0};
  log_to(log_, line);
}

}  // namespace syncline::cluster
