#include "tools/run/listener.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "fmt/format.h"
#include "tools/cli/units.h"

namespace syncline::tools {
namespace {

constexpr int kBacklog = 1024;

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

Result<Address> numeric_address(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host.c_str(), fmt::to_string(port).c_str(), &hints, &list);
  if (error != 0) {
    return Status(Code::kInvalidArgument,
                  fmt::format("'{}' is no address: {}", host, gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> guard(list, freeaddrinfo);
  Address address;
  address.length = list->ai_addrlen;
  std::memcpy(&address.storage, list->ai_addr, list->ai_addrlen);
  return address;
}

int port_of(int fd) {
  Address address;
  address.length = sizeof address.storage;
  getsockname(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.length);
  char port[8] = "0";
  getnameinfo(address.get(), address.length, nullptr, 0, port, sizeof port, NI_NUMERICSERV);
  int number = 0;
  std::from_chars(port, port + std::strlen(port), number);
  return number;
}

// A bound socket, or -1 with errno.
int bound_socket(const Address& address) {
  const int fd = socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  if (fd < 0) return -1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(fd, address.get(), address.length) == 0) return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

int listening_socket(const Address& address) {
  const int fd = bound_socket(address);
  if (fd < 0 || listen(fd, kBacklog) == 0) return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

}  // namespace

Result<std::pair<int, int>> parse_port_range(const std::string& text) {
  if (text.empty()) return std::pair{0, 0};
  const std::size_t dash = text.find('-');
  const auto low = parse_int(text.substr(0, dash), 1, 65535, "--port-range: port");
  if (!low.ok()) return low.status();
  if (dash == std::string::npos) return std::pair{low.value(), low.value()};
  const auto high = parse_int(text.substr(dash + 1), 1, 65535, "--port-range: port");
  if (!high.ok()) return high.status();
  if (high.value() < low.value()) {
    return Status(Code::kInvalidArgument,
                  fmt::format("--port-range {}: the first port is the larger one", text));
  }
  return std::pair{low.value(), high.value()};
}

Result<Listener> open_listener(const std::string& address, const std::string& port_range) {
  const auto range = parse_port_range(port_range);
  if (!range.ok()) return range.status();
  Listener listener;
  for (int port = range.value().first; port <= range.value().second && listener.fd < 0; ++port) {
    const auto target = numeric_address(address, port);
    if (!target.ok()) return target.status();
    listener.fd = listening_socket(target.value());
  }
  if (listener.fd < 0) {
    const std::string ports = port_range.empty() ? "any port" : port_range;
    return Status(
        Code::kExhausted,
        fmt::format("cannot listen on {}:{}: {}; choose other ports with --port-range A-B", address,
                    ports, std::strerror(errno)));
  }
  const char* const form = address.find(':') == std::string::npos ? "tcp://{}:{}" : "tcp://[{}]:{}";
  listener.uri = fmt::format(fmt::runtime(form), address, port_of(listener.fd));
  const auto any = numeric_address("0.0.0.0", 0);
  if (any.ok()) listener.reserved_fd = bound_socket(any.value());
  if (listener.reserved_fd >= 0) listener.master_port = port_of(listener.reserved_fd);
  return listener;
}

}  // namespace syncline::tools
