// The only reader of the process environment.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace syncline {

// Value of an environment variable; nullopt if unset. Not safe against a concurrent setenv.
std::optional<std::string> env(const std::string& name);

// Injected in tests in place of env().
using EnvLookup = std::function<std::optional<std::string>(const std::string&)>;

}  // namespace syncline
