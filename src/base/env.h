// The only reader of the process environment.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace syncline {

// Value of an environment variable; nullopt if unset. Not safe against a concurrent setenv.
std::optional<std::string> env(const std::string& name);

// Sets a variable for this process and its later children. Before any thread starts: nothing guards
// the environment.
void set_env(const std::string& name, const std::string& value);

// Injected in tests in place of env().
using EnvLookup = std::function<std::optional<std::string>(const std::string&)>;

// Calls `visit` for every variable of the environment, in no order.
void for_each_env(
    const std::function<void(const std::string& name, const std::string& value)>& visit);

}  // namespace syncline
