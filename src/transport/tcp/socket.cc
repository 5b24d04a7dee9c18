#include "transport/tcp/socket.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/assert.h"

namespace syncline::transport::tcp {
namespace {

Status failure(const std::string& what, int error, const char* advice) {
  const bool exhausted = error == EMFILE || error == ENFILE || error == ENOBUFS ||
                         error == ENOMEM || error == EADDRINUSE;
  const bool invalid = error == EADDRNOTAVAIL || error == EACCES || error == EAFNOSUPPORT;
  const Code code = exhausted ? Code::kExhausted
                    : invalid ? Code::kInvalidArgument
                              : Code::kLinkDown;
  return Status(code, what + ": " + std::strerror(error) + advice);
}

constexpr int kUnsentBytesMax = 64 << 10;

std::string pacing_of(int fd) {
  char name[32] = "";
  socklen_t length = sizeof name - 1;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length) != 0) return "";
  return name;
}

bool set_pacing(int fd, const std::string& name) {
  return ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(),
                      static_cast<socklen_t>(name.size())) == 0;
}

void set_option(int fd, int level, int option, int value) {
  (void)::setsockopt(fd, level, option, &value, sizeof value);
}

// 0, or errno. Other errors than EADDRINUSE would repeat on every port.
int bind_and_listen(int fd, const Address& address, int backlog) {
  if (::bind(fd, address.get(), address.length()) != 0) return errno;
  if (::listen(fd, backlog) != 0) return errno;
  return 0;
}

Fd raw_socket(const Address& address) {
  return Fd(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
}

Result<Fd> open_socket(const Address& address) {
  Fd fd = raw_socket(address);
  if (!fd.valid()) return failure("cannot open a socket for " + address.to_string(), errno, "");
  return fd;
}

}  // namespace

void Fd::reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

Result<PortRange> parse_port_range(std::string_view text) {
  PortRange range;
  if (text.empty()) return range;
  const Status bad(Code::kInvalidArgument,
                   "port range '" + std::string(text) +
                       "' is not A-B with 1 <= A <= B <= 65535; write for example 20000-20999");
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, range.first);
  if (first.ec != std::errc() || range.first == 0) return bad;
  range.last = range.first;
  if (first.ptr == end) return range;
  if (*first.ptr != '-') return bad;
  const auto last = std::from_chars(first.ptr + 1, end, range.last);
  if (last.ec != std::errc() || last.ptr != end || range.last < range.first) return bad;
  return range;
}

Result<Fd> listen_on(const Address& address, PortRange ports, int backlog) {
  for (int port = ports.first; port <= ports.last; ++port) {
    Result<Fd> fd = open_socket(address);  // a fresh one: a failed bind or listen may leave traces
    if (!fd.ok()) return fd.status();
    set_option(fd->get(), SOL_SOCKET, SO_REUSEADDR, 1);
    if (address.family() == AF_INET6) set_option(fd->get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
    const Address here = address.with_port(static_cast<std::uint16_t>(port));
    const int error = bind_and_listen(fd->get(), here, backlog);
    if (error == 0) return fd;
    if (error != EADDRINUSE || ports.first == ports.last) {
      return failure("cannot listen on " + here.to_string(), error,
                     error == EADDRINUSE ? "; stop the other program or choose another port" : "");
    }
  }
  return failure("cannot listen on " + address.host() + ", ports " + std::to_string(ports.first) +
                     "-" + std::to_string(ports.last),
                 EADDRINUSE, " (every one of them); widen the port range");
}

Result<std::optional<Fd>> accept_from(int listener) {
  for (;;) {
    Fd fd(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd.valid()) {
      tune_stream(fd.get());
      return std::optional<Fd>(std::move(fd));
    }
    // ECONNABORTED and network errors belong to that one connection, not to the listener.
    if (errno == EINTR || errno == ECONNABORTED || errno == EPROTO) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::optional<Fd>();
    return failure("cannot accept on " + local_address(listener).to_string(), errno,
                   "; raise the limit of open files (ulimit -n)");
  }
}

Address local_address(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return {};
  return Address(reinterpret_cast<sockaddr*>(&storage), length);
}

Address remote_address(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return {};
  return Address(reinterpret_cast<sockaddr*>(&storage), length);
}

void tune_stream(int fd) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags >= 0 && (flags & O_NONBLOCK) == 0) (void)::fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

void keep_little_unsent(int fd) { set_option(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, kUnsentBytesMax); }

void pace(int fd, const std::string& congestion_control) {
  if (congestion_control == "system") return;
  if (!congestion_control.empty()) {
    (void)set_pacing(fd, congestion_control);
  } else if (pacing_of(fd) == "bbr") {
    (void)set_pacing(fd, "cubic");
  }
}

Status check_congestion_control(const std::string& name) {
  if (name.empty() || name == "system") return {};
  const Fd probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!probe.valid() || set_pacing(probe.get(), name)) return {};
  return Status(Code::kInvalidArgument,
                "TCP congestion control '" + name + "': " + std::strerror(errno) +
                    "; sysctl net.ipv4.tcp_available_congestion_control lists what there is");
}

Connecting start_connect(const Address& to, const Address& from) {
  Connecting out;
  out.fd = raw_socket(to);
  if (!out.fd.valid()) return {Fd(), errno};
  if (from.length() != 0 && ::bind(out.fd.get(), from.get(), from.length()) != 0) {
    return {Fd(), errno};
  }
  tune_stream(out.fd.get());
  int result;
  do {
    result = ::connect(out.fd.get(), to.get(), to.length());
  } while (result != 0 && errno == EINTR);
  if (result == 0 || errno == EINPROGRESS || errno == EALREADY || errno == EISCONN) return out;
  return {Fd(), errno};
}

int connect_error(int fd) {
  pollfd waiting{fd, POLLOUT, 0};
  if (::poll(&waiting, 1, 0) <= 0) return EINPROGRESS;
  int error = 0;
  socklen_t length = sizeof error;
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
  // A local port that nobody serves may be given to the connecting end itself.
  if (error == 0 && local_address(fd) == remote_address(fd)) return ECONNREFUSED;
  return error;
}

namespace {

constexpr Nanos kNextAttempt = 250 * kMillisecond;

// Confined. One call of connect_any().
class Attempts {
 public:
  Attempts(const std::vector<Address>& addresses, Nanos deadline)
      : addresses_(addresses), deadline_(deadline) {}

  Result<Fd> run() {
    start_next();
    while (!running_.empty()) {
      const Nanos now = monotonic_now();
      if (now >= deadline_) return timed_out();
      wait(now);
      if (Fd done = take_connected(); done.valid()) return done;
      if (next_ < addresses_.size() && (running_.empty() || monotonic_now() >= next_at_)) {
        start_next();
      }
    }
    return Status(Code::kLinkDown,
                  "cannot connect: " + reasons_ +
                      "; is the other side running, and does a firewall allow it?");
  }

 private:
  struct Attempt {
    const Address* to;
    Fd fd;
  };

  // Skips addresses that fail at once, such as those of a family this host does not have.
  void start_next() {
    while (next_ < addresses_.size()) {
      const Address& to = addresses_[next_++];
      Connecting attempt = start_connect(to);
      if (attempt.error == 0) {
        running_.push_back({&to, std::move(attempt.fd)});
        next_at_ = monotonic_now() + kNextAttempt;
        return;
      }
      add_reason(to.to_string() + ": " + std::strerror(attempt.error));
    }
  }

  void wait(Nanos now) {
    std::vector<pollfd> set;
    for (const Attempt& each : running_) set.push_back({each.fd.get(), POLLOUT, 0});
    Nanos until = deadline_;
    if (next_ < addresses_.size()) until = std::min(until, next_at_);
    const Nanos rest = std::clamp<Nanos>(until - now, 0, kSecond);
    const timespec limit{rest / kSecond, rest % kSecond};
    (void)::ppoll(set.data(), set.size(), &limit, nullptr);
  }

  Fd take_connected() {
    for (auto it = running_.begin(); it != running_.end();) {
      const int error = connect_error(it->fd.get());
      if (error == 0) return std::move(it->fd);
      if (error == EINPROGRESS) {
        ++it;
        continue;
      }
      add_reason(it->to->to_string() + ": " + std::strerror(error));
      it = running_.erase(it);
    }
    return {};
  }

  Status timed_out() {
    for (const Attempt& each : running_) add_reason(each.to->to_string() + ": no answer");
    return Status(Code::kTimeout, "cannot connect in time: " + reasons_ +
                                      "; is the other side running, and does a firewall allow it?");
  }

  void add_reason(const std::string& reason) {
    reasons_ += (reasons_.empty() ? "" : ", ") + reason;
  }

  const std::vector<Address>& addresses_;
  const Nanos deadline_;
  std::size_t next_ = 0;
  Nanos next_at_ = 0;
  std::vector<Attempt> running_;
  std::string reasons_;
};

}  // namespace

Result<Fd> connect_any(const std::vector<Address>& addresses, Nanos deadline) {
  return Attempts(addresses, deadline).run();
}

}  // namespace syncline::transport::tcp
