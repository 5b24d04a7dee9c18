// Processor cores that this process may use, and how ranks share them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace syncline::tools {

// Cores of the affinity mask, ascending; never empty.
std::vector<int> allowed_cores();

// Cores that can really be used: the mask, lowered by a cgroup's CPU quota. At least 1.
int usable_cores();

// OMP_NUM_THREADS of each of `local_ranks` ranks: max(1, cores / local_ranks).
int threads_per_rank(int cores, int local_ranks);

// "0-3,8" -> {0,1,2,3,8}; malformed parts are dropped.
std::vector<int> parse_cpu_list(std::string_view text);

enum class Binding { kNone, kCore, kNuma };
Result<Binding> parse_binding(std::string_view text);

// Cores that rank `local_rank` is bound to; empty = leave it unbound (nothing to gain or too few
// cores). `nodes`: the cores of each NUMA node. Never leaves `allowed`.
std::vector<int> cores_of_rank(Binding binding, int local_rank, int local_ranks,
                               const std::vector<int>& allowed,
                               const std::vector<std::vector<int>>& nodes);

// The core that a host's `index`-th server is bound to where servers and ranks are more than the
// cores: each has another one, in turn, so that no two share a core while ranks share the other.
// Empty: unbound.
std::vector<int> cores_of_server(int index, int servers, int ranks,
                                 const std::vector<int>& allowed);

// The cores of each NUMA node of this machine.
std::vector<std::vector<int>> numa_nodes();

}  // namespace syncline::tools
