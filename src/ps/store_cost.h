// StoreCost: how long all workers' push_pull of a store's tensors takes where links are the
// bottleneck. Pure.
#pragma once

#include <cstddef>
#include <vector>

namespace syncline::ps {

struct StoreLoad {
  int workers = 1;
  std::vector<std::size_t> bytes_by_server;  // of the values (Placement::bytes_by_server)
  std::size_t slice_bytes = 0;               // the largest
};

// Of a host's port, the same in both directions.
struct PortCost {
  double alpha_s = 0;          // from the end of a send until the peer has it
  double beta_s_per_byte = 0;  // inverse bandwidth
};

// Seconds. A worker's port carries each byte once in each direction, a server's the bytes of its
// share once for each worker; sums flow back while pushes still arrive. What does not overlap is
// the last slice's way back, behind the last push of it.
double predict_push_pull_seconds(const StoreLoad& load, const PortCost& port);

}  // namespace syncline::ps
