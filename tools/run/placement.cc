#include "tools/run/placement.h"

#include <algorithm>

#include "fmt/format.h"

namespace syncline::tools {
namespace {

Status bad_placement(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }

Result<std::vector<HostPlacement>> place_here(const PlacementRequest& request) {
  if (request.host_count > 1) {
    return bad_placement(fmt::format("--nnodes {} needs the hosts: add --hostfile F or -H a:2,b:2",
                                     request.host_count));
  }
  if (request.ranks > 0 && request.ranks_per_host > 0 && request.ranks != request.ranks_per_host) {
    return bad_placement(
        fmt::format("-np {} and --nproc-per-node {} disagree on one host; give one of them",
                    request.ranks, request.ranks_per_host));
  }
  const int ranks = std::max({request.ranks, request.ranks_per_host, 1});
  if (ranks > kSlotsMax)
    return bad_placement(fmt::format("{} ranks on one host are too many", ranks));
  return std::vector<HostPlacement>{{"", 0, ranks, {}}};
}

HostPlacement& placement_of(std::vector<HostPlacement>& placed, const std::string& host) {
  const auto found =
      std::find_if(placed.begin(), placed.end(),
                   [&](const HostPlacement& placement) { return placement.host == host; });
  if (found != placed.end()) return *found;
  const int ranks = placed.back().first_rank + placed.back().ranks;
  return placed.emplace_back(HostPlacement{host, ranks, 0, {}});
}

}  // namespace

Result<std::vector<HostPlacement>> place(const PlacementRequest& request) {
  if (request.hosts.empty()) return place_here(request);
  std::vector<HostSlots> hosts = request.hosts;
  if (request.host_count > static_cast<int>(hosts.size())) {
    return bad_placement(
        fmt::format("--nnodes {} but only {} hosts are listed", request.host_count, hosts.size()));
  }
  if (request.host_count > 0) hosts.resize(static_cast<std::size_t>(request.host_count));
  int slots = 0;
  for (HostSlots& host : hosts) {
    if (request.ranks_per_host > 0) host.slots = request.ranks_per_host;
    slots += host.slots;
  }
  if (request.ranks > slots) {
    return bad_placement(fmt::format(
        "{} ranks asked for, but {} hosts offer {} slots; raise their slots or lower -np",
        request.ranks, hosts.size(), slots));
  }
  int left = request.ranks > 0 ? request.ranks : slots;
  std::vector<HostPlacement> placed;
  int next = 0;
  for (const HostSlots& host : hosts) {
    const int take = std::min(host.slots, left);
    if (take == 0) break;
    placed.push_back({host.host, next, take, {}});
    next += take;
    left -= take;
  }
  return placed;
}

Status place_servers(std::vector<HostPlacement>& placed, int count, std::vector<HostSlots> on) {
  int slots = 0;
  for (const HostSlots& host : on) slots += host.slots;
  if (count > slots) {
    return bad_placement(fmt::format(
        "{} servers asked for, but {} hosts offer {} slots; raise their slots or lower --servers",
        count, on.size(), slots));
  }
  for (int server = 0; server < count;) {
    for (HostSlots& host : on) {
      if (host.slots == 0 || server == count) continue;
      --host.slots;
      placement_of(placed, host.host).servers.push_back(server++);
    }
  }
  return {};
}

}  // namespace syncline::tools
