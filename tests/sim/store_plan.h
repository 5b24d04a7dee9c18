// What a seed stands for in a simulated job with a key-value store. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ps/request.h"
#include "tests/sim/plan.h"

namespace syncline::sim {

struct StoreScenario {
  Scenario network;  // ranks: workers, then servers; times of faults begin when all have joined
  int workers = 1;
  int servers = 1;
  std::uint64_t bound = 0;
  bool uniform = false;    // all push and pull all keys in each clock
  bool optimizer = false;  // Sgd(1); else values are sums
  bool norms = false;      // Lars instead, in bulk: servers tell each other of squares
  std::vector<ps::KeyDescription> keys;  // dense ones, then a table
  std::vector<std::uint64_t> clocks;     // how many each worker has
  std::vector<Nanos> delays;             // of each worker, before it opens the store
  // By worker, where hosts sum for their workers (ps/relay_slice.h); empty: none does.
  std::vector<int> hosts;

  bool is_bulk() const { return bound == 0; }
  // The worker that sums for this one's host; itself where it is alone or no host sums.
  int leader_of(int worker) const;
  // It sums for others.
  bool leads(int worker) const;
  // Pushes are applied one by one, in no rounds.
  bool immediate(const ps::KeyDescription& key) const {
    return bound == ps::kUnbounded || (bound > 0 && (optimizer || key.table));
  }
  // Values are what all pushes so far add up to; else the sum of one clock.
  bool accumulates(const ps::KeyDescription& key) const {
    return bound == ps::kUnbounded || optimizer || key.table;
  }
};

inline constexpr std::int64_t kTableRows = 12;

StoreScenario store_scenario_of(std::uint64_t seed);
std::string describe(const StoreScenario& scenario);

}  // namespace syncline::sim
