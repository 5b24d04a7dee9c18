#include "tests/harness/proxy.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/clock.h"
#include "wire/handshake_messages.h"
#include "wire/header.h"

namespace syncline::harness {
namespace {

namespace tcp = transport::tcp;

constexpr std::size_t kWaitingMax = 1024 * 1024;
constexpr std::size_t kRead = 128 * 1024;
// Hello and finish; reply and, on the first connection, the admission.
constexpr std::uint64_t kDiallerPrefix = wire::kHelloBytes + wire::kFinishBytes;
constexpr std::uint64_t kListenerPrefix = wire::kReplyBytes + 256;

}  // namespace

Proxy::Proxy(tcp::Address target, std::uint64_t seed)
    : target_(target),
      listener_(tcp::listen_on(tcp::parse_literal("127.0.0.1", 0).value()).value()),
      address_(tcp::local_address(listener_.get())),
      random_(seed),
      thread_("proxy", [this] { loop(); }) {}

Proxy::~Proxy() {
  stop_ = true;
  thread_.join();
}

void Proxy::loop() {
  while (!stop_) {
    std::vector<pollfd> set{{listener_.get(), POLLIN, 0}};
    for (const auto& each : connections_open_) {
      const auto events = [](const Flow& in, const Flow& out) {
        return static_cast<short>((in.waiting.size() < kWaitingMax ? POLLIN : 0) |
                                  (out.waiting.empty() ? 0 : POLLOUT));
      };
      set.push_back({each->dialer.get(), events(each->there, each->back), 0});
      set.push_back({each->listener.get(), events(each->back, each->there), 0});
    }
    if (hold) set.resize(1);
    ::poll(set.data(), set.size(), 5);
    if (const int delay = delay_us; delay > 0) {
      const timespec pause{0, delay * 1000L};
      ::nanosleep(&pause, nullptr);
    }
    if (set[0].revents != 0) accept();
    const bool cut = cuts_done_ != cuts_wanted_;
    if (cut) cuts_done_ = cuts_wanted_;
    if (hold && !cut) continue;
    std::erase_if(connections_open_, [&](const auto& each) {
      if (!cut && pump(*each)) return false;
      reset(*each);
      return true;
    });
  }
}

void Proxy::accept() {
  for (;;) {
    auto next = tcp::accept_from(listener_.get());
    if (!next.ok() || !next.value()) return;
    auto onward = tcp::connect_any({target_}, monotonic_now() + kSecond);
    if (!onward.ok()) continue;  // the target is gone: so is this connection
    ++connections_;
    auto connection = std::make_unique<Connection>();
    connection->dialer = std::move(*next.value());
    connection->listener = std::move(onward).value();
    tcp::tune_stream(connection->listener.get());
    connections_open_.push_back(std::move(connection));
  }
}

bool Proxy::pump(Connection& connection) {
  return read(connection.dialer.get(), connection.there, true) &&
         read(connection.listener.get(), connection.back, false) &&
         write(connection.listener.get(), connection.there) &&
         write(connection.dialer.get(), connection.back);
}

bool Proxy::read(int from, Flow& flow, bool dialling) {
  if (flow.waiting.size() >= kWaitingMax) return true;
  std::array<std::byte, kRead> space;
  const std::uint64_t prefix = dialling ? kDiallerPrefix : kListenerPrefix;
  const std::size_t want =
      flow.passed < prefix ? static_cast<std::size_t>(prefix - flow.passed) : space.size();
  const ssize_t got = ::recv(from, space.data(), std::min(want, space.size()), MSG_DONTWAIT);
  if (got == 0) return false;
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  const auto count = static_cast<std::size_t>(got);
  const bool handshake = flow.passed < prefix;
  flow.passed += count;
  const std::size_t begin = flow.waiting.size();
  if (dialling && !handshake) {
    by_frames(flow, space.data(), count);
  } else {
    flow.waiting.insert(flow.waiting.end(), space.begin(), space.begin() + got);
  }
  if (!handshake) damage(flow, begin);
  return true;
}

bool Proxy::write(int to, Flow& flow) {
  if (flow.waiting.empty()) return true;
  const ssize_t sent =
      ::send(to, flow.waiting.data(), flow.waiting.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0) return errno == EAGAIN || errno == EINTR;
  flow.waiting.erase(flow.waiting.begin(), flow.waiting.begin() + sent);
  return true;
}

void Proxy::damage(Flow& flow, std::size_t begin) {
  const std::uint64_t every = flip_every;
  if (every == 0) {
    flow.next_flip = 0;
    return;
  }
  if (flow.next_flip == 0) flow.next_flip = flow.passed + every / 2 + random_() % every;
  while (flow.next_flip <= flow.passed) {
    const std::size_t back = static_cast<std::size_t>(flow.passed - flow.next_flip);
    if (back < flow.waiting.size() - begin) {
      flow.waiting[flow.waiting.size() - 1 - back] ^= std::byte(1u << (random_() % 8));
      ++flips_;
    }
    flow.next_flip += every / 2 + random_() % every;
  }
}

// Passes whole frames on, so that one can come twice.
void Proxy::by_frames(Flow& flow, const std::byte* bytes, std::size_t count) {
  flow.frame.insert(flow.frame.end(), bytes, bytes + count);
  std::size_t at = 0;
  while (flow.frame.size() - at >= wire::kHeaderBytes) {
    std::uint32_t length = 0;
    std::memcpy(&length, flow.frame.data() + at + 12, sizeof length);
    const std::size_t whole = wire::kHeaderBytes + length;
    if (flow.frame.size() - at < whole) break;
    const auto begin = flow.frame.begin() + static_cast<std::ptrdiff_t>(at);
    const auto end = begin + static_cast<std::ptrdiff_t>(whole);
    at += whole;
    const std::uint64_t drop_every = drop_acks_every;
    const bool ack = begin[3] == static_cast<std::byte>(wire::Type::kAck);
    if (ack && drop_every != 0 && ++flow.acks % drop_every == 0) {
      ++acks_dropped_;
      continue;
    }
    flow.waiting.insert(flow.waiting.end(), begin, end);
    ++flow.frames;
    const std::uint64_t every = repeat_every;
    // Not the resume frame: that comes once a connection.
    const bool sequenced = begin[3] <= std::byte{3};
    if (every != 0 && sequenced && flow.frames % every == 0) {
      if (random_() % 2 == 0 || !flow.late.empty()) {
        ++repeats_;
        flow.waiting.insert(flow.waiting.end(), begin, end);
      } else {
        flow.late.assign(begin, end);
        flow.late_at = flow.frames + 1 + random_() % 5;
      }
    }
    if (!flow.late.empty() && flow.frames >= flow.late_at) {
      ++repeats_;
      flow.waiting.insert(flow.waiting.end(), flow.late.begin(), flow.late.end());
      flow.late.clear();
    }
  }
  flow.frame.erase(flow.frame.begin(), flow.frame.begin() + static_cast<std::ptrdiff_t>(at));
}

void Proxy::reset(Connection& connection) {
  const linger at_once{1, 0};
  for (const int fd : {connection.dialer.get(), connection.listener.get()}) {
    ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  }
  connection.dialer.reset();
  connection.listener.reset();
}

}  // namespace syncline::harness
