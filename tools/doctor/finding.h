// Finding: one line of `syncline doctor`.
#pragma once

#include <string>
#include <vector>

namespace syncline::tools {

enum class Level { kInfo, kOk, kWarn, kFail };

struct Finding {
  Level level = Level::kInfo;
  std::string topic;  // "interfaces"
  std::string text;   // what was found
  std::string fix;    // the command that mends it; "" when there is nothing to mend
};
using Findings = std::vector<Finding>;

// "INFO", "OK", "WARN", "FAIL"
const char* to_string(Level level);

}  // namespace syncline::tools
