#include "transport/shm/shm.h"

#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "transport/ring_endpoint.h"
#include "transport/shm/greeting.h"
#include "transport/shm/memory.h"

namespace syncline::transport::shm {
namespace {

constexpr int kBacklog = 1024;

// Watches the pair's socket for the peer's death.
class ShmEndpoint final : public RingEndpoint {
 public:
  ShmEndpoint(RingEndpointOptions options, int socket, event::Poller& poller)
      : RingEndpoint(std::move(options)), socket_(socket), poller_(poller) {
    poller_.add(socket_, EPOLLIN | EPOLLRDHUP, [this](std::uint32_t) { on_socket(); });
  }
  ~ShmEndpoint() override {
    RingEndpoint::close();
    unwatch();
    ::close(socket_);
  }

 private:
  // Nothing is ever sent after the greetings: readable means closed.
  void on_socket() {
    unwatch();
    peer_died();
  }
  void unwatch() {
    if (watched_) poller_.remove(socket_);
    watched_ = false;
  }
  const int socket_;
  event::Poller& poller_;
  bool watched_ = true;
};

// Owns a descriptor.
struct Closer {
  explicit Closer(int descriptor = -1) : fd(descriptor) {}
  ~Closer() {
    if (fd >= 0) ::close(fd);
  }
  Closer(Closer&& other) noexcept : fd(other.release()) {}
  Closer& operator=(Closer&& other) noexcept {
    std::swap(fd, other.fd);
    return *this;
  }
  int release() { return std::exchange(fd, -1); }
  int fd;
};

socklen_t fill_address(sockaddr_un& address, const std::string& name) {
  address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

Status failed(const std::string& what) {
  return Status(Code::kLinkDown, "shared memory: " + what + ": " + std::strerror(errno));
}

std::unique_ptr<Endpoint> make_endpoint(const Self& self, const Peer& peer, int socket,
                                        std::shared_ptr<void> memory, int doorbell, bool dialer) {
  const std::size_t bytes = ring_bytes(self.ring_capacity);
  auto* first = static_cast<std::byte*>(memory.get());
  auto* second = first + bytes;
  RingEndpointOptions options;
  options.outbound = dialer ? first : second;
  options.inbound = dialer ? second : first;
  options.memory = std::move(memory);
  options.capacity = self.ring_capacity;
  options.peer_doorbell_fd = doorbell;
  options.peer = peer.label;
  options.peer_rank = peer.rank;
  options.transport_name = "shm";
  return std::make_unique<ShmEndpoint>(std::move(options), socket, *self.poller);
}

// A pair on its way; `memory` is null when it cannot be had.
struct Dialed {
  const Peer* peer = nullptr;
  Closer socket;
  std::shared_ptr<void> memory;
};

Result<Dialed> dial(const Self& self, const Peer& peer) {
  Dialed dialed;
  dialed.peer = &peer;
  dialed.socket.fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (dialed.socket.fd < 0) return failed("socket");
  sockaddr_un address;
  if (peer.socket_name.empty() || peer.socket_name.size() >= sizeof address.sun_path) {
    return Status(Code::kInvalidArgument,
                  "shared memory: " + peer.label + " announced no usable name");
  }
  const socklen_t length = fill_address(address, peer.socket_name);
  if (::connect(dialed.socket.fd, reinterpret_cast<sockaddr*>(&address), length) != 0) {
    return failed("connecting to " + peer.label);
  }
  if (!same_user(dialed.socket.fd)) {
    return Status(Code::kCorrupt, "shared memory: " + peer.label + " belongs to another user");
  }
  auto mapping = create(2 * ring_bytes(self.ring_capacity));
  const Closer memfd{mapping.ok() ? mapping->fd : -1};
  if (mapping.ok()) {
    dialed.memory = mapping->memory;
    auto* first = static_cast<std::byte*>(dialed.memory.get());
    init_ring(first);
    init_ring(first + ring_bytes(self.ring_capacity));
  }
  const Greeting greeting{self.rank,        peer.rank,    self.ring_capacity,
                          self.incarnation, mapping.ok(), self.token};
  std::vector<int> descriptors;
  if (mapping.ok()) descriptors = {memfd.fd, self.poller->doorbell_fd()};
  const Status sent = send_greeting(dialed.socket.fd, greeting, descriptors);
  if (!sent.ok()) return sent;
  return dialed;
}

const Peer* find_peer(const std::vector<Peer>& peers, const Greeting& greeting) {
  for (const Peer& peer : peers) {
    if (peer.rank == greeting.rank && peer.incarnation == greeting.incarnation) return &peer;
  }
  return nullptr;
}

// One greeting of a higher rank. Foreign connections are dropped: an empty result without error.
Result<bool> accept_one(const Listener& listener, const Self& self, const std::vector<Peer>& peers,
                        Nanos deadline, Endpoints& endpoints) {
  const Status readable = wait_readable(listener.fd(), deadline);
  if (!readable.ok()) return readable;
  Closer socket{::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC)};
  if (socket.fd < 0) return errno == EINTR ? Result<bool>(false) : Result<bool>(failed("accept"));
  if (!same_user(socket.fd)) return false;
  auto received = receive_greeting(socket.fd, deadline);
  if (!received.ok()) return false;
  std::vector<Closer> descriptors;
  for (const int fd : received->descriptors) descriptors.emplace_back(fd);
  const Greeting& greeting = received->greeting;
  const Peer* peer = find_peer(peers, greeting);
  if (peer == nullptr || greeting.to != self.rank || greeting.token != self.token) return false;

  std::shared_ptr<void> memory;
  if (greeting.usable && descriptors.size() == 2 && greeting.capacity == self.ring_capacity) {
    auto mapped = map(descriptors[0].fd, 2 * ring_bytes(self.ring_capacity));
    if (mapped.ok()) memory = std::move(mapped).value();
  }
  const Greeting answer{self.rank,        peer->rank,        self.ring_capacity,
                        self.incarnation, memory != nullptr, self.token};
  std::vector<int> doorbell;
  if (memory != nullptr) doorbell = {self.poller->doorbell_fd()};
  const Status sent = send_greeting(socket.fd, answer, doorbell);
  if (!sent.ok()) return sent;
  endpoints[peer->rank] = memory == nullptr
                              ? nullptr
                              : make_endpoint(self, *peer, socket.release(), std::move(memory),
                                              descriptors[1].release(), false);
  return true;
}

Status finish_dial(const Self& self, Dialed& dialed, Nanos deadline, Endpoints& endpoints) {
  auto received = receive_greeting(dialed.socket.fd, deadline);
  if (!received.ok()) {
    return Status(received.status().code(), "shared memory: no answer from " + dialed.peer->label)
        .caused_by(received.status());
  }
  std::vector<Closer> descriptors;
  for (const int fd : received->descriptors) descriptors.emplace_back(fd);
  const Greeting& answer = received->greeting;
  if (answer.rank != dialed.peer->rank || answer.token != self.token) {
    return Status(Code::kCorrupt,
                  "shared memory: " + dialed.peer->label + " answered for another job");
  }
  const bool usable = answer.usable && dialed.memory != nullptr && descriptors.size() == 1;
  if (usable) {
    endpoints[answer.rank] = make_endpoint(self, *dialed.peer, dialed.socket.release(),
                                           dialed.memory, descriptors[0].release(), true);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Listener>> Listener::open() {
  std::array<unsigned char, 16> random{};
  if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size())) {
    return failed("getrandom");
  }
  std::string name = "syncline-";
  for (const unsigned char byte : random) {
    name += "0123456789abcdef"[byte >> 4];
    name += "0123456789abcdef"[byte & 15];
  }
  Closer socket{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)};
  sockaddr_un address;
  const socklen_t length = fill_address(address, name);
  if (socket.fd < 0 || ::bind(socket.fd, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::listen(socket.fd, kBacklog) != 0) {
    return failed("listening");
  }
  return std::unique_ptr<Listener>(new Listener(socket.release(), std::move(name)));
}

Listener::~Listener() { ::close(fd_); }

Result<Endpoints> connect(const Listener& listener, const Self& self,
                          const std::vector<Peer>& peers, Nanos deadline) {
  // All dial first and accept afterwards; the kernel queues connections, so nobody waits in a
  // circle.
  Endpoints endpoints;
  std::vector<Dialed> dialed;
  std::size_t expected = 0;
  for (const Peer& peer : peers) {
    if (peer.rank > self.rank) ++expected;
    if (peer.rank >= self.rank) continue;
    auto result = dial(self, peer);
    if (!result.ok()) return result.status();
    dialed.push_back(std::move(result).value());
  }
  while (endpoints.size() < expected) {
    auto accepted = accept_one(listener, self, peers, deadline, endpoints);
    if (!accepted.ok()) return accepted.status();
  }
  for (Dialed& pair : dialed) {
    const Status status = finish_dial(self, pair, deadline, endpoints);
    if (!status.ok()) return status;
  }
  std::erase_if(endpoints, [](const auto& entry) { return entry.second == nullptr; });
  return endpoints;
}

}  // namespace syncline::transport::shm
