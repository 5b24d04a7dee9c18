// Which ranks run on which host. Pure.
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
  std::string host;  // "" = this machine
  int first_rank = 0;
  int ranks = 0;
  friend bool operator==(const HostPlacement&, const HostPlacement&) = default;
};

// Fills host after host with consecutive ranks; hosts that get no rank are left out.
// Errors (kInvalidArgument): more ranks than slots, contradicting numbers.
Result<std::vector<HostPlacement>> place(const PlacementRequest& request);

}  // namespace syncline::tools
