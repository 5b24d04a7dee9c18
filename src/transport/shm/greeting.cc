#include "transport/shm/greeting.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/bytes.h"

namespace syncline::transport::shm {
namespace {

constexpr std::uint32_t kMagic = 0x6d68736c;  // "lshm"
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kGreetingBytes = 72;
constexpr std::size_t kDescriptorsMax = 2;

std::vector<std::byte> encode(const Greeting& greeting) {
  ByteWriter out;
  out.put(kMagic);
  out.put(kVersion);
  out.put(greeting.rank);
  out.put(greeting.to);
  out.put(greeting.capacity);
  out.put(greeting.incarnation);
  out.put(static_cast<std::uint64_t>(greeting.usable ? 1 : 0));
  out.put_bytes(greeting.token);
  return out.take();
}

Result<Greeting> decode(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  const auto magic = in.get<std::uint32_t>();
  const auto version = in.get<std::uint32_t>();
  Greeting greeting;
  greeting.rank = in.get<std::int32_t>();
  greeting.to = in.get<std::int32_t>();
  greeting.capacity = in.get<std::uint64_t>();
  greeting.incarnation = in.get<std::uint64_t>();
  greeting.usable = in.get<std::uint64_t>() == 1;
  const auto token = in.get_bytes(greeting.token.size());
  if (!in.at_end() || magic != kMagic || version != kVersion) {
    return Status(Code::kCorrupt, "shared memory: the greeting is not one of this version");
  }
  std::copy(token.begin(), token.end(), greeting.token.begin());
  return greeting;
}

}  // namespace

Status send_greeting(int socket, const Greeting& greeting, const std::vector<int>& descriptors) {
  std::vector<std::byte> bytes = encode(greeting);
  iovec part{bytes.data(), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kDescriptorsMax * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    const std::size_t payload = descriptors.size() * sizeof(int);
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(payload);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(payload);
    std::memcpy(CMSG_DATA(header), descriptors.data(), payload);
  }
  while (::sendmsg(socket, &message, MSG_NOSIGNAL) < 0) {
    if (errno == EINTR) continue;
    return Status(Code::kLinkDown,
                  std::string("shared memory: sending a greeting: ") + std::strerror(errno));
  }
  return {};
}

Status wait_readable(int socket, Nanos deadline) {
  for (;;) {
    const Nanos left = deadline - monotonic_now();
    if (left <= 0) return Status(Code::kTimeout, "shared memory: the peer did not answer in time");
    pollfd waits{socket, POLLIN, 0};
    const int milliseconds = static_cast<int>(std::min<Nanos>(left / kMillisecond + 1, 1000));
    if (::poll(&waits, 1, milliseconds) > 0) return {};
  }
}

Result<Received> receive_greeting(int socket, Nanos deadline) {
  const Status readable = wait_readable(socket, deadline);
  if (!readable.ok()) return readable;
  std::array<std::byte, kGreetingBytes + 1> bytes{};
  iovec part{bytes.data(), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kDescriptorsMax * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t count = 0;
  do {
    count = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (count < 0 && errno == EINTR);
  if (count <= 0)
    return Status(Code::kLinkDown, "shared memory: the peer closed during the greeting");

  Received received;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t descriptors = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    received.descriptors.resize(descriptors);
    std::memcpy(received.descriptors.data(), CMSG_DATA(header), descriptors * sizeof(int));
  }
  auto greeting = decode(std::span(bytes).first(static_cast<std::size_t>(count)));
  if (!greeting.ok()) {
    for (const int fd : received.descriptors) ::close(fd);
    return greeting.status();
  }
  received.greeting = greeting.value();
  return received;
}

bool same_user(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
         peer.uid == ::geteuid();
}

}  // namespace syncline::transport::shm
