#include "tools/cli/job_settings.h"

#include "plan/generators.h"
#include "session/transports.h"

namespace syncline::tools {

Status check_schedule(const std::string& name) {
  if (name.empty() || name == "auto" || plan::find_generator(name) != nullptr) return {};
  std::string all = "auto";
  for (const plan::Generator& generator : plan::all_generators())
    all += std::string(", ") + generator.name;
  return {Code::kInvalidArgument, "schedule '" + name + "' is unknown; there are " + all};
}

Status check_transports(const std::string& list) {
  return session::parse_transports(list).status();
}

}  // namespace syncline::tools
