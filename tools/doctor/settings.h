// Settings with value and origin, for `syncline doctor --settings`.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"

namespace syncline::tools {

struct Setting {
  std::string variable;
  std::string value;
  std::string origin;  // "environment" or "default"
};

std::vector<Setting> settings(const EnvLookup& lookup);

}  // namespace syncline::tools
