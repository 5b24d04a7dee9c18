// TCP sockets: listen, accept, connect. Every descriptor is non-blocking and close-on-exec.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "transport/tcp/address.h"

namespace syncline::transport::tcp {

// Externally synchronised. Owns a descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() { reset(); }
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept {
    reset(other.release());
    return *this;
  }
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

struct PortRange {
  std::uint16_t first = 0;  // 0 to 0: the kernel chooses
  std::uint16_t last = 0;
};
// "A-B", a single port, or "" for the kernel's choice.
Result<PortRange> parse_port_range(std::string_view text);

// Listens on exactly this address (its port is ignored) and the first free port of `ports`. Errors
// name host:port and the system's reason.
Result<Fd> listen_on(const Address& address, PortRange ports = {}, int backlog = 128);
// The next waiting connection, tuned like tune_stream(); nullopt if there is none.
Result<std::optional<Fd>> accept_from(int listener);

Address local_address(int fd);
Address remote_address(int fd);

// No delay for small frames; non-blocking.
void tune_stream(int fd);
// Of what the socket takes, little waits in the kernel: it would go before all that becomes urgent
// later. Costs wake-ups.
void keep_little_unsent(int fd);

// How the kernel paces a connection: "system" = as it would; a name of
// net.ipv4.tcp_available_congestion_control; "" = the system's choice, but CUBIC in place of BBR:
// several BBR connections share a port unevenly for seconds, and synchronisation waits for the
// slowest (docs/design/0002). A name that is refused leaves things as they are.
void pace(int fd, const std::string& congestion_control);
// Whether pace() would follow; names what there is.
Status check_congestion_control(const std::string& name);

struct Connecting {
  Fd fd;
  int error = 0;  // errno of a failure at once; else 0, and `fd` is valid
};
// Begins a connection, from a local address if `from` has one, and returns at once; poll for
// writability, then ask connect_error().
Connecting start_connect(const Address& to, const Address& from = {});
// 0: connected. EINPROGRESS: not decided yet. Else why it failed.
int connect_error(int fd);

// Connects to the first of `addresses` that answers. Starts with the first and adds the next
// whenever one fails or 250 ms pass, so that a dead address or family costs little. Blocks until
// `deadline` (monotonic). One failed round is an error, at once, that names each address and its
// reason.
Result<Fd> connect_any(const std::vector<Address>& addresses, Nanos deadline);

}  // namespace syncline::transport::tcp
