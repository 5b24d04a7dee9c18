#include "plan/hosts.h"

#include <bit>
#include <map>

namespace syncline::plan {

std::vector<std::vector<int>> ranks_by_host(HostOf host_of) {
  std::vector<std::vector<int>> hosts;
  std::map<int, std::size_t> place;
  for (int rank = 0; rank < static_cast<int>(host_of.size()); ++rank) {
    const auto [it, fresh] =
        place.try_emplace(host_of[static_cast<std::size_t>(rank)], hosts.size());
    if (fresh) hosts.emplace_back();
    hosts[it->second].push_back(rank);
  }
  return hosts;
}

bool hosts_are_aligned(const std::vector<std::vector<int>>& hosts) {
  const std::size_t size = hosts.front().size();
  int next = 0;
  for (const std::vector<int>& host : hosts) {
    const bool last = &host == &hosts.back();
    if (last ? host.size() > size : host.size() != size) return false;
    for (const int rank : host) {
      if (rank != next++) return false;
    }
  }
  return hosts.size() == 1 || std::has_single_bit(size);
}

}  // namespace syncline::plan
