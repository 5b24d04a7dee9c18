#include "transport/tcp/address.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/assert.h"

namespace syncline::transport::tcp {
namespace {

Status bad_address(std::string_view text, const char* why) {
  return Status(Code::kInvalidArgument, "address '" + std::string(text) + "': " + why +
                                            "; write host:port or [v6 address]:port");
}

Status no_addresses(const HostPort& where, int error) {
  return Status(Code::kInvalidArgument, "cannot resolve host '" + where.host +
                                            "': " + ::gai_strerror(error) +
                                            "; check its spelling and /etc/hosts or DNS");
}

// Names alternate between families, so that a dead family delays a connection by one attempt only.
std::vector<Address> alternate_families(const std::vector<Address>& in) {
  std::vector<Address> first;
  std::vector<Address> second;
  for (const Address& each : in) {
    (each.family() == in.front().family() ? first : second).push_back(each);
  }
  std::vector<Address> out;
  for (std::size_t i = 0; i < std::max(first.size(), second.size()); ++i) {
    if (i < first.size()) out.push_back(first[i]);
    if (i < second.size()) out.push_back(second[i]);
  }
  return out;
}

}  // namespace

Result<HostPort> parse_host_port(std::string_view text) {
  HostPort out;
  std::string_view port;
  if (!text.empty() && text.front() == '[') {
    const auto end = text.find(']');
    if (end == std::string_view::npos) return bad_address(text, "']' is missing");
    if (end + 1 >= text.size() || text[end + 1] != ':') return bad_address(text, "no port");
    out.host = text.substr(1, end - 1);
    port = text.substr(end + 2);
  } else {
    const auto colon = text.rfind(':');
    if (colon == std::string_view::npos) return bad_address(text, "no port");
    out.host = text.substr(0, colon);
    port = text.substr(colon + 1);
    if (out.host.find(':') != std::string::npos) {
      return bad_address(text, "an IPv6 address needs brackets");
    }
  }
  if (out.host.empty()) return bad_address(text, "no host");
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), out.port);
  if (error != std::errc() || end != port.data() + port.size()) {
    return bad_address(text, "the port is no number from 0 to 65535");
  }
  return out;
}

std::string to_string(const HostPort& where) {
  const bool brackets = where.host.find(':') != std::string::npos;
  return (brackets ? "[" + where.host + "]" : where.host) + ":" + std::to_string(where.port);
}

Address::Address(const sockaddr* address, socklen_t length) : length_(length) {
  SYNCLINE_ASSERT(length <= sizeof storage_, "no address is longer than sockaddr_storage");
  std::memcpy(&storage_, address, length);
}

std::uint16_t Address::port() const {
  if (family() == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in*>(&storage_)->sin_port);
  if (family() == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_port);
  }
  return 0;
}

Address Address::with_port(std::uint16_t port) const {
  Address copy = *this;
  if (family() == AF_INET) reinterpret_cast<sockaddr_in*>(&copy.storage_)->sin_port = htons(port);
  if (family() == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&copy.storage_)->sin6_port = htons(port);
  }
  return copy;
}

bool Address::is_loopback() const {
  if (family() == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&storage_);
    return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
  }
  if (family() != AF_INET6) return false;
  const in6_addr& v6 = reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}

bool Address::is_any() const {
  if (family() == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(&storage_)->sin_addr.s_addr == htonl(INADDR_ANY);
  }
  return family() == AF_INET6 &&
         IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_addr);
}

std::string Address::host() const {
  char text[NI_MAXHOST] = {};
  if (::getnameinfo(get(), length_, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) return "?";
  return text;
}

std::string Address::to_string() const { return tcp::to_string(HostPort{host(), port()}); }

bool operator==(const Address& a, const Address& b) {
  return a.length_ == b.length_ && std::memcmp(&a.storage_, &b.storage_, a.length_) == 0;
}

Result<Address> parse_literal(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) {
    return Status(Code::kInvalidArgument, "'" + host + "' is no literal IPv4 or IPv6 address");
  }
  const Address address(found->ai_addr, found->ai_addrlen);
  ::freeaddrinfo(found);
  return address.with_port(port);
}

Result<std::vector<Address>> resolve(const HostPort& where) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(where.host.c_str(), nullptr, &hints, &found);
  if (error != 0) return no_addresses(where, error);
  std::vector<Address> out;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    if (each->ai_family != AF_INET && each->ai_family != AF_INET6) continue;
    const Address address = Address(each->ai_addr, each->ai_addrlen).with_port(where.port);
    if (std::find(out.begin(), out.end(), address) == out.end()) out.push_back(address);
  }
  ::freeaddrinfo(found);
  if (out.empty()) return no_addresses(where, EAI_FAMILY);
  return alternate_families(out);
}

}  // namespace syncline::transport::tcp
