#include "tools/cli/job_settings.h"

#include "plan/generators.h"
#include "session/transports.h"

namespace syncline::tools {

Status check_schedule(const std::string& name) {
  if (name.empty() || name == "auto" || name == plan::kAggregated ||
      !plan::generators_named(name).empty()) {
    return {};
  }
  return {Code::kInvalidArgument,
          "schedule '" + name + "' is unknown; there are auto, " + plan::known_schedules()};
}

Status check_transports(const std::string& list) {
  return session::parse_transports(list).status();
}

}  // namespace syncline::tools
