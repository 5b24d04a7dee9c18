#include "tools/doctor/settings.h"

#include "fmt/format.h"
#include "syncline/session.h"

namespace syncline::tools {

std::vector<Setting> settings(const EnvLookup& lookup) {
  const SessionOptions defaults;
  const auto ms = [](std::chrono::milliseconds time) { return fmt::format("{}ms", time.count()); };
  std::vector<Setting> result = {
      {"SYNCLINE_RENDEZVOUS", "", ""},
      {"SYNCLINE_KEY_FILE", "~/.config/syncline/job.key", ""},
      {"SYNCLINE_TRANSPORT", "the best that two ranks share", ""},
      {"SYNCLINE_IFNAME", "every interface but loopback and bridges", ""},
      {"SYNCLINE_PORT_RANGE", "the kernel's choice", ""},
      {"SYNCLINE_TCP_CONGESTION", "the system's, but cubic instead of bbr", ""},
      {"SYNCLINE_SCHEDULE", "the planner's choice", ""},
      {"SYNCLINE_REPRODUCIBLE", defaults.reproducible ? "1" : "0", ""},
      {"SYNCLINE_SEGMENT_BYTES", "the planner's choice", ""},
      {"SYNCLINE_SUSPECT_MS", ms(defaults.suspect), ""},
      {"SYNCLINE_STALL_MS", ms(defaults.stall), ""},
      {"SYNCLINE_SILENCE_MS", ms(defaults.silence), ""},
      {"SYNCLINE_TIMEOUT", ms(defaults.timeout), ""},
      {"SYNCLINE_CONNECT_TIMEOUT", ms(defaults.connect_timeout), ""},
      {"SYNCLINE_INSECURE", defaults.insecure ? "1" : "0", ""},
      {"SYNCLINE_LOG", "on", ""},
      {"SYNCLINE_FLIGHT", "on", ""},
      {"SYNCLINE_FLIGHT_DIR", "syncline-UID in the folder for temporary files", ""},
      {"SYNCLINE_BUCKET_CAP_MB", "25", ""},
  };
  for (Setting& setting : result) {
    const auto value = lookup(setting.variable);
    setting.origin = value.has_value() ? "environment" : "default";
    if (value.has_value()) setting.value = *value;
  }
  return result;
}

}  // namespace syncline::tools
