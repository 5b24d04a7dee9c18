// The servers of a job: what --servers and --servers-on say.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "tools/run/placement.h"

namespace syncline::tools {

// "" for a name of this machine, which needs no remote shell; else `host`.
std::string host_to_reach(const std::string& host);

// What was asked for; "" = not given.
struct ServerWishes {
  std::string servers, aggregators;  // how many; of one sort only
  std::string where;                 // "" or "colocated" = the hosts of the ranks, else a hostfile
};

// Adds the servers, and hosts that have no ranks. Returns how many there are. Errors:
// kInvalidArgument.
Result<int> add_servers(std::vector<HostPlacement>& hosts, const ServerWishes& wishes);

}  // namespace syncline::tools
