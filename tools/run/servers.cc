#include "tools/run/servers.h"

#include <unistd.h>

#include <algorithm>

#include "tools/cli/units.h"

namespace syncline::tools {
namespace {

constexpr int kServersMax = 4096;

// The hosts of the file by the names that the ranks' hosts have here.
Result<std::vector<HostSlots>> server_hosts(const std::string& path) {
  const auto listed = read_hostfile(path);
  if (!listed.ok()) return listed.status();
  std::vector<HostSlots> hosts;
  for (const HostSlots& each : listed.value()) {
    const std::string name = host_to_reach(each.host);
    const auto same = std::find_if(hosts.begin(), hosts.end(),
                                   [&](const HostSlots& other) { return other.host == name; });
    if (same != hosts.end()) {
      same->slots += each.slots;
    } else {
      hosts.push_back({name, each.slots});
    }
  }
  return hosts;
}

}  // namespace

std::string host_to_reach(const std::string& host) {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return host == "localhost" || host == "127.0.0.1" || host == name ? "" : host;
}

Result<int> add_servers(std::vector<HostPlacement>& hosts, const ServerWishes& wishes) {
  const std::string& where = wishes.where;
  if (!wishes.servers.empty() && !wishes.aggregators.empty()) {
    return Status(Code::kInvalidArgument,
                  "--servers and --aggregators: a job has one sort of them so far; give one");
  }
  const bool aggregate = !wishes.aggregators.empty();
  const std::string& count = aggregate ? wishes.aggregators : wishes.servers;
  if (count.empty() && where.empty()) return 0;
  if (count.empty()) {
    return Status(Code::kInvalidArgument,
                  "--servers-on says where servers run; add --servers N or --aggregators N");
  }
  const Result<int> servers =
      parse_int(count, 0, kServersMax, aggregate ? "--aggregators:" : "--servers:");
  if (!servers.ok()) return servers.status();
  std::vector<HostSlots> on;
  if (where.empty() || where == "colocated") {
    for (const HostPlacement& host : hosts) on.push_back({host.host, kServersMax});
  } else {
    auto listed = server_hosts(where);
    if (!listed.ok()) return listed.status();
    on = std::move(listed).value();
  }
  const Status placed = place_servers(hosts, servers.value(), std::move(on));
  if (!placed.ok()) return placed;
  return servers.value();
}

}  // namespace syncline::tools
