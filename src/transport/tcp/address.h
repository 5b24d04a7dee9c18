// TCP addresses: text, resolution, formatting. IPv4 and IPv6. All functions are thread-safe.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace syncline::transport::tcp {

// A host name or literal address as users write it.
struct HostPort {
  std::string host;  // without brackets
  std::uint16_t port = 0;
};

// "host:port", "1.2.3.4:port" or "[v6]:port". A bare v6 literal with a port is ambiguous and
// refused.
Result<HostPort> parse_host_port(std::string_view text);
// The inverse; puts brackets around v6 literals.
std::string to_string(const HostPort& where);

// Immutable value: what connect() and bind() take.
class Address {
 public:
  Address() = default;  // of no family
  Address(const sockaddr* address, socklen_t length);

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t length() const { return length_; }
  int family() const { return storage_.ss_family; }
  std::uint16_t port() const;
  Address with_port(std::uint16_t port) const;
  bool is_loopback() const;       // 127.0.0.0/8, ::1 and v4-mapped loopback
  bool is_any() const;            // 0.0.0.0 or ::
  std::string host() const;       // numeric, without brackets; a scope as "%eth0"
  std::string to_string() const;  // "1.2.3.4:80", "[::1]:80"

  friend bool operator==(const Address& a, const Address& b);

 private:
  sockaddr_storage storage_{};
  socklen_t length_ = 0;
};

// A literal address; never asks a name server.
Result<Address> parse_literal(const std::string& host, std::uint16_t port);

// All addresses of a name, families alternating and the resolver's first choice first. Blocks for
// as long as the name service takes: never call it from the engine.
Result<std::vector<Address>> resolve(const HostPort& where);

}  // namespace syncline::transport::tcp
