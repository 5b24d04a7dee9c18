#include "base/env.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace syncline {

std::optional<std::string> env(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

void set_env(const std::string& name, const std::string& value) {
  ::setenv(name.c_str(), value.c_str(), 1);
}

void for_each_env(
    const std::function<void(const std::string& name, const std::string& value)>& visit) {
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const char* equals = std::strchr(*entry, '=');
    if (equals != nullptr)
      visit(std::string(*entry, static_cast<std::size_t>(equals - *entry)),
            std::string(equals + 1));
  }
}

}  // namespace syncline
