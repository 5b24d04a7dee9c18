// Host lists: what -H and --hostfile say. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace syncline::tools {

inline constexpr int kSlotsMax = 4096;

struct HostSlots {
  std::string host;  // name, address or user@name; never starts with '-'
  int slots = 1;     // ranks it takes
  friend bool operator==(const HostSlots&, const HostSlots&) = default;
};

// "a:2,b:2,[fe80::1]:4"; no number means 1. A repeated host adds its slots.
Result<std::vector<HostSlots>> parse_host_list(std::string_view text);

// Lines `host slots=n`, `host:n` or `host`; '#' starts a comment. `name` is the file's, for
// messages.
Result<std::vector<HostSlots>> parse_hostfile(std::string_view text, const std::string& name);

Result<std::vector<HostSlots>> read_hostfile(const std::string& path);

}  // namespace syncline::tools
