#include "cluster/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

namespace syncline::cluster {
namespace {

using transport::tcp::Address;

bool starts_with(const std::string& text, std::string_view prefix) {
  return text.compare(0, prefix.size(), prefix) == 0;
}

// Bridges and pairs that container engines make: the same addresses on every host.
bool is_virtual(const std::string& name) {
  for (const char* prefix : {"docker", "veth", "br-", "virbr", "cni", "flannel"}) {
    if (starts_with(name, prefix)) return true;
  }
  return false;
}

bool is_link_local(const Address& address) {
  if (address.family() == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address.get());
    return (ntohl(v4->sin_addr.s_addr) >> 16) == 0xa9fe;
  }
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address.get());
  return IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr);
}

std::vector<Interface> admitted(const std::vector<Interface>& all, const InterfaceFilter& filter) {
  std::vector<Interface> chosen;
  for (const Interface& each : all) {
    if (each.up && filter.admits(each.name)) chosen.push_back(each);
  }
  return chosen;
}

template <class Predicate>
void drop_if_others_remain(std::vector<Interface>& list, Predicate unwanted) {
  if (std::all_of(list.begin(), list.end(), unwanted)) return;
  list.erase(std::remove_if(list.begin(), list.end(), unwanted), list.end());
}

std::string names_of(const std::vector<Interface>& all) {
  std::string text;
  for (const Interface& each : all) {
    text += (text.empty() ? "" : ", ") + each.name + " " + each.address.host();
  }
  return text.empty() ? "none" : text;
}

}  // namespace

Result<InterfaceFilter> InterfaceFilter::parse(std::string_view text) {
  InterfaceFilter filter;
  filter.text_ = std::string(text);
  if (text.empty()) return filter;
  std::string_view rest = text;
  if (rest.front() == '^') {
    filter.exclude_ = true;
    rest.remove_prefix(1);
  }
  if (!rest.empty() && rest.front() == '=') {
    filter.exact_ = true;
    rest.remove_prefix(1);
  }
  for (;;) {
    const auto comma = rest.find(',');
    const std::string_view name = rest.substr(0, comma);
    if (name.empty()) {
      return Status(Code::kInvalidArgument,
                    "interface list '" + filter.text_ +
                        "' has an empty name; write for example eth0, =eth0 or ^lo,docker0");
    }
    filter.names_.emplace_back(name);
    if (comma == std::string_view::npos) return filter;
    rest.remove_prefix(comma + 1);
  }
}

bool InterfaceFilter::admits(const std::string& name) const {
  if (names_.empty()) return true;
  const bool listed = std::any_of(names_.begin(), names_.end(), [&](const std::string& each) {
    return exact_ ? name == each : starts_with(name, each);
  });
  return listed != exclude_;
}

bool InterfaceFilter::lists(const std::string& name) const {
  return std::find(names_.begin(), names_.end(), name) != names_.end();
}

Result<InterfaceFilter> interface_filter(const std::string& option, const EnvLookup& lookup) {
  if (!option.empty()) return InterfaceFilter::parse(option);
  for (const char* name :
       {"SYNCLINE_IFNAME", "SYNCLINE_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"}) {
    if (const auto value = lookup(name); value && !value->empty())
      return InterfaceFilter::parse(*value);
  }
  return InterfaceFilter();
}

Result<std::vector<Interface>> list_interfaces() {
  ifaddrs* head = nullptr;
  if (::getifaddrs(&head) != 0) {
    return Status(Code::kInternal,
                  std::string("cannot list network interfaces: ") + std::strerror(errno));
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(head, &::freeifaddrs);
  std::vector<Interface> all;
  for (const ifaddrs* each = head; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr) continue;
    const int family = each->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    Interface entry;
    entry.name = each->ifa_name;
    entry.address =
        Address(each->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    entry.up = (each->ifa_flags & IFF_UP) != 0;
    entry.loopback = (each->ifa_flags & IFF_LOOPBACK) != 0;
    entry.link_local = is_link_local(entry.address);
    if (entry.up) all.push_back(std::move(entry));
  }
  return all;
}

Result<std::vector<Interface>> select_interfaces(const std::vector<Interface>& all,
                                                 const InterfaceFilter& filter) {
  std::vector<Interface> chosen = admitted(all, filter);
  drop_if_others_remain(chosen, [](const Interface& each) { return each.loopback; });
  if (!filter.given()) {
    chosen.erase(std::remove_if(chosen.begin(), chosen.end(),
                                [](const Interface& each) { return each.loopback; }),
                 chosen.end());
  }
  // Whoever excludes one has not asked for all others.
  if (!filter.chooses()) {
    drop_if_others_remain(chosen, [](const Interface& each) { return is_virtual(each.name); });
  }
  drop_if_others_remain(chosen, [](const Interface& each) { return each.link_local; });
  if (chosen.empty()) {
    const std::string wanted = filter.given()
                                   ? "no interface that is up matches '" + filter.text() + "'"
                                   : std::string("no interface that reaches other hosts is up");
    return Status(Code::kInvalidArgument, wanted + "; there are: " + names_of(all));
  }
  // Else interfaces in the kernel's order, IPv4 first within each.
  if (filter.chooses()) {
    std::stable_partition(chosen.begin(), chosen.end(),
                          [&](const Interface& each) { return filter.lists(each.name); });
  }
  std::vector<std::string> order;
  for (const Interface& each : chosen) {
    if (std::find(order.begin(), order.end(), each.name) == order.end()) order.push_back(each.name);
  }
  const auto position = [&](const Interface& each) {
    const auto at = std::find(order.begin(), order.end(), each.name) - order.begin();
    return 2 * at + (each.address.family() == AF_INET ? 0 : 1);
  };
  std::stable_sort(chosen.begin(), chosen.end(), [&](const Interface& a, const Interface& b) {
    return position(a) < position(b);
  });
  return chosen;
}

std::string interface_name(const Address& address) {
  const auto all = list_interfaces();
  if (!all.ok()) return "";
  const auto& list = all.value();
  const auto found = std::find_if(list.begin(), list.end(), [&](const Interface& each) {
    return each.address.host() == address.host();
  });
  return found == list.end() ? "" : found->name;
}

}  // namespace syncline::cluster
