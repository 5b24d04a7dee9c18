#include "tools/run/host_address.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <sstream>
#include <vector>

#include "base/env.h"
#include "cluster/interfaces.h"

namespace syncline::tools {
namespace {

std::string text_of(const sockaddr* address, socklen_t length) {
  char text[NI_MAXHOST] = "";
  if (getnameinfo(address, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) return "";
  return text;
}

// The addresses of `host`, numeric.
std::vector<std::string> resolve(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &list) != 0) return {};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> guard(list, freeaddrinfo);
  std::vector<std::string> found;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    found.push_back(text_of(entry->ai_addr, entry->ai_addrlen));
  }
  return found;
}

// Where ssh came in: the third word of "client port server port".
std::string ssh_address() {
  std::istringstream words(env("SSH_CONNECTION").value_or(""));
  std::string client, client_port, server;
  words >> client >> client_port >> server;
  return server;
}

}  // namespace

Result<std::string> listen_address(const AgentConfig& config) {
  const Result<cluster::InterfaceFilter> filter = cluster::interface_filter(config.ifname, env);
  if (!filter.ok()) return filter.status();
  if (config.host_count == 1 && !filter.value().given()) return std::string("127.0.0.1");
  const Result<std::vector<cluster::Interface>> all = cluster::list_interfaces();
  if (!all.ok()) return all.status();
  const auto usable = cluster::select_interfaces(all.value(), filter.value());
  if (!usable.ok()) return usable.status();
  const auto numeric = [](const cluster::Interface& entry) { return entry.address.host(); };
  if (!filter.value().given()) {
    std::vector<std::string> wanted = resolve(config.host.substr(config.host.find('@') + 1));
    wanted.push_back(ssh_address());
    for (const std::string& address : wanted) {
      const auto match =
          std::find_if(usable.value().begin(), usable.value().end(),
                       [&](const cluster::Interface& entry) { return numeric(entry) == address; });
      if (match != usable.value().end()) return address;
    }
  }
  return numeric(usable.value().front());
}

}  // namespace syncline::tools
