// Which ranks and servers run on which host. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "tools/run/hosts.h"

namespace syncline::tools {

struct PlacementRequest {
  std::vector<HostSlots> hosts;  // empty: this machine only, any number of ranks
  int ranks = 0;                 // -np; 0 = not given
  int ranks_per_host = 0;        // --nproc-per-node; 0 = not given
  int host_count = 0;            // --nnodes; 0 = not given
};

struct HostPlacement {
  std::string host;    // "" = this machine
  int first_rank = 0;  // without ranks: their number
  int ranks = 0;
  std::vector<int> servers = {};  // which
  friend bool operator==(const HostPlacement&, const HostPlacement&) = default;
};

// Fills host after host with consecutive ranks; hosts that get no rank are left out.
// Errors (kInvalidArgument): more ranks than slots, contradicting numbers.
Result<std::vector<HostPlacement>> place(const PlacementRequest& request);

// Gives servers 0..count-1 to the hosts `on` in turn, as far as their slots go. Hosts without ranks
// come behind those that have some. Errors (kInvalidArgument): more servers than slots.
Status place_servers(std::vector<HostPlacement>& placed, int count, std::vector<HostSlots> on);

}  // namespace syncline::tools
