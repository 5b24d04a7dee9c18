// Which ranks share a host. Pure.
#pragma once

#include <span>
#include <vector>

namespace syncline::plan {

// By rank, a number that the ranks of one host have in common; empty: not known.
using HostOf = std::span<const int>;

// The ranks of each host, ascending; hosts in the order of their first ranks.
std::vector<std::vector<int>> ranks_by_host(HostOf host_of);

// True if the hosts are blocks of consecutive ranks, all of one power of two but the last, which
// may be smaller: then the canonical sum of a host is a node of the canonical tree.
bool hosts_are_aligned(const std::vector<std::vector<int>>& hosts);

}  // namespace syncline::plan
