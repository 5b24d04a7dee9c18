#include "cluster/rendezvous_address.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "cluster/processes.h"

namespace syncline::cluster {
namespace {

using transport::tcp::Address;
using transport::tcp::Fd;
using transport::tcp::HostPort;
using transport::tcp::PortRange;

constexpr std::size_t kDataRailsMax = 8;
constexpr int kBacklog = 1024;  // ranks arrive all at once

Status bad_rendezvous(std::string message) {
  return Status(Code::kInvalidArgument, std::move(message));
}

bool all_loopback(const std::vector<Address>& addresses) {
  return std::all_of(addresses.begin(), addresses.end(),
                     [](const Address& each) { return each.is_loopback(); });
}

Address loopback(std::uint16_t port) {
  return transport::tcp::parse_literal("127.0.0.1", port).value();
}

Result<std::vector<Interface>> chosen_interfaces(const RendezvousConfig& config) {
  auto all = list_interfaces();
  if (!all.ok()) return all.status();
  return select_interfaces(all.value(), config.interfaces);
}

Result<std::vector<Fd>> adopt_listener(int fd) {
  int listening = 0;
  socklen_t size = sizeof listening;
  const bool good =
      ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) == 0 && listening == 1;
  if (!good) {
    return bad_rendezvous("SYNCLINE_RENDEZVOUS_FD=" + std::to_string(fd) +
                          " is no listening socket");
  }
  (void)::fcntl(fd, F_SETFD, FD_CLOEXEC);
  (void)::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  std::vector<Fd> listeners;
  listeners.emplace_back(fd);
  return listeners;
}

bool open_without_key(const RendezvousConfig& config, const Address& address) {
  return config.key.absent() && !config.insecure && !address.is_loopback();
}

Status with_owner(const Status& busy, std::uint16_t port) {
  const std::string owner = listener_on_port(port);
  if (owner.empty()) return busy;
  return Status(busy.code(), busy.message() + "; " + owner + " listens there");
}

}  // namespace

Result<RendezvousUri> parse_rendezvous_uri(const std::string& uri) {
  RendezvousUri out;
  const auto starts = [&](std::string_view prefix) {
    return uri.compare(0, prefix.size(), prefix) == 0;
  };
  if (starts("tcp://")) {
    auto where = transport::tcp::parse_host_port(uri.substr(6));
    if (!where.ok()) return bad_rendezvous("rendezvous '" + uri + "': " + where.status().message());
    out.where = std::move(where).value();
    return out;
  }
  if (starts("file:")) {
    out.kind = RendezvousUri::Kind::kFile;
    std::string folder = uri.substr(5);
    if (folder.compare(0, 2, "//") == 0) folder = folder.substr(2);
    while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
    if (folder.empty() || folder.front() != '/') {
      return bad_rendezvous("rendezvous '" + uri +
                            "' needs an absolute folder, such as file:/shared/dir");
    }
    out.folder = folder;
    return out;
  }
  if (starts("pmix:") || starts("etcd://")) {
    return Status(Code::kUnsupported,
                  "rendezvous '" + uri + "' is not built yet; use tcp://host:port");
  }
  return bad_rendezvous("rendezvous '" + uri +
                        "' is neither tcp://host:port nor file:/dir nor slurm:");
}

Result<std::vector<Address>> rendezvous_addresses(const RendezvousConfig& config,
                                                  const HostPort& where) {
  auto found = transport::tcp::resolve(where);
  if (!found.ok()) return found.status();
  std::vector<Address>& addresses = found.value();
  if (all_loopback(addresses)) {
    const bool literal = transport::tcp::parse_literal(where.host, where.port).ok();
    if (literal || where.host == "localhost" || config.one_host) return found;
    const auto interfaces = chosen_interfaces(config);
    if (!interfaces.ok()) return found;
    if (config.key.absent() && !config.insecure) return found;
    std::vector<Address> outward;
    for (const Interface& each : interfaces.value()) {
      if (!each.link_local) outward.push_back(each.address.with_port(where.port));
    }
    return outward.empty() ? addresses : outward;
  }
  if (config.one_host && config.key.absent() && !config.insecure) {
    return std::vector<Address>{loopback(where.port)};
  }
  return found;
}

Result<std::vector<Fd>> open_rendezvous_listeners(const RendezvousConfig& config,
                                                  const HostPort& where) {
  if (config.listen_fd >= 0) return adopt_listener(config.listen_fd);
  if (where.port == 0) {
    return bad_rendezvous(
        "rendezvous port 0 needs an inherited listening socket (SYNCLINE_RENDEZVOUS_FD)");
  }
  const auto addresses = rendezvous_addresses(config, where);
  if (!addresses.ok()) return addresses.status();
  std::vector<Fd> listeners;
  Status first_error;
  for (const Address& address : addresses.value()) {
    if (open_without_key(config, address)) {
      return missing_key_error("rank 0 would listen at " + address.to_string() +
                               ", which other hosts reach");
    }
    auto fd = transport::tcp::listen_on(address, PortRange{where.port, where.port}, kBacklog);
    if (fd.ok()) {
      listeners.push_back(std::move(fd).value());
      continue;
    }
    // An address of another host or family is no obstacle while one of the name's addresses is
    // ours.
    const bool busy = fd.status().code() == Code::kExhausted;
    if (busy) return with_owner(fd.status(), address.port());
    if (first_error.ok()) first_error = fd.status();
  }
  if (!listeners.empty()) return listeners;
  return Status(first_error.code(), "rank 0 must run on the host of the rendezvous tcp://" +
                                        transport::tcp::to_string(where) + ", but it " +
                                        first_error.message());
}

Result<Fd> open_file_listener(const RendezvousConfig& config) {
  const bool inside = config.one_host || (config.key.absent() && !config.insecure);
  if (inside) return transport::tcp::listen_on(loopback(0), {}, kBacklog);
  const auto interfaces = chosen_interfaces(config);
  if (!interfaces.ok()) {
    if (config.interfaces.given()) return interfaces.status();
    log_to(config.log, "rank 0 listens on loopback only: " + interfaces.status().message());
    return transport::tcp::listen_on(loopback(0), {}, kBacklog);
  }
  return transport::tcp::listen_on(interfaces.value().front().address, {}, kBacklog);
}

Result<std::vector<Fd>> open_data_listeners(const RendezvousConfig& config, const Address& local) {
  std::vector<Address> addresses;
  if (local.is_loopback() || (local.is_any() && config.one_host)) {
    addresses.push_back(local.is_any() ? loopback(0) : local);
  } else if (!config.interfaces.given() && !local.is_any()) {
    addresses.push_back(local);
  } else {
    const auto interfaces = chosen_interfaces(config);
    if (!interfaces.ok()) return interfaces.status();
    // Of the family in which rank 0 was reached, if the interface has it.
    const auto& list = interfaces.value();
    auto best = std::find_if(list.begin(), list.end(), [&](const Interface& each) {
      return each.address.family() == local.family() && !each.link_local;
    });
    if (best == list.end()) best = list.begin();
    std::set<std::string> names;
    for (auto each = best; each != list.end(); ++each) {
      const bool fits =
          each->address.family() == best->address.family() && each->link_local == best->link_local;
      const bool several = config.interfaces.given() && addresses.size() < kDataRailsMax;
      if (each != best && !(fits && several)) continue;
      if (names.insert(each->name).second) addresses.push_back(each->address);
    }
  }
  std::vector<Fd> listeners;
  for (const Address& address : addresses) {
    auto fd = transport::tcp::listen_on(address, config.ports, kBacklog);
    if (!fd.ok()) return fd.status();
    listeners.push_back(std::move(fd).value());
  }
  return listeners;
}

}  // namespace syncline::cluster
