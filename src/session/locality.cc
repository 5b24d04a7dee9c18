#include "session/locality.h"

#include <algorithm>
#include <map>
#include <string>

namespace syncline::session {
namespace {

HostCount count_hosts(const cluster::View& view, int number, int limit) {
  const std::string& own = view.members[static_cast<std::size_t>(number)].host_id;
  HostCount count;
  std::map<std::string, int> on_host;
  for (const cluster::Member& member : view.members) {
    if (member.rank >= limit) break;
    if (member.host_id == own && member.rank < number) ++count.before;
    count.max = std::max(count.max, ++on_host[member.host_id]);
  }
  const auto here = on_host.find(own);
  count.here = here == on_host.end() ? 0 : here->second;
  count.hosts = static_cast<int>(on_host.size());
  return count;
}

}  // namespace

Locality locality_of(const cluster::View& view, int number, int workers) {
  Locality locality;
  locality.workers = count_hosts(view, number, workers);
  locality.processes = count_hosts(view, number, static_cast<int>(view.members.size()));
  std::map<std::string, int> number_of;
  for (const cluster::Member& member : view.members) {
    const auto next = static_cast<int>(number_of.size());
    const int host = number_of.try_emplace(member.host_id, next).first->second;
    (member.rank < workers ? locality.host_of : locality.server_hosts).push_back(host);
  }
  return locality;
}

}  // namespace syncline::session
