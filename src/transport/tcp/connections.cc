#include "transport/tcp/connections.h"

#include <cerrno>

#include "transport/tcp/rail.h"

namespace syncline::transport::tcp {
namespace {

class SocketListener final : public Listener {
 public:
  explicit SocketListener(Fd fd) : fd_(std::move(fd)) {}
  Result<Accepted> accept() override {
    auto next = accept_from(fd_.get());
    if (!next.ok()) return next.status();
    if (!next.value()) return Accepted{};
    const Address from = remote_address(next.value()->get());
    return Accepted{std::make_unique<SocketStream>(std::move(*next.value())), from};
  }
  Address address() const override { return local_address(fd_.get()); }
  int fd() const override { return fd_.get(); }

 private:
  Fd fd_;
};

class SocketAttempt final : public Attempt {
 public:
  SocketAttempt(const Address& to, const Address& from) : started_(start_connect(to, from)) {}
  int error() override {
    return started_.error != 0 ? started_.error : connect_error(started_.fd.get());
  }
  Address local() const override { return local_address(started_.fd.get()); }
  std::unique_ptr<Stream> take() override {
    return std::make_unique<SocketStream>(std::move(started_.fd));
  }
  int fd() const override { return started_.fd.get(); }

 private:
  Connecting started_;
};

}  // namespace

std::unique_ptr<Listener> make_listener(Fd fd) {
  return std::make_unique<SocketListener>(std::move(fd));
}

std::vector<std::unique_ptr<Listener>> make_listeners(std::vector<Fd> fds) {
  std::vector<std::unique_ptr<Listener>> listeners;
  for (Fd& fd : fds) listeners.push_back(make_listener(std::move(fd)));
  return listeners;
}

std::unique_ptr<Attempt> connect_to(const Address& to, const Address& from) {
  return std::make_unique<SocketAttempt>(to, from);
}

}  // namespace syncline::transport::tcp
