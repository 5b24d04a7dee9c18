#include "cluster/control_channel.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/assert.h"
#include "base/bytes.h"

namespace syncline::cluster {
namespace {

constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kReadBytesMax = 16 * 1024;
// A peer that sends without waiting for answers is broken.
constexpr std::size_t kReceivedMax = 64;

}  // namespace

ControlChannel::ControlChannel(event::Poller& poller, AuthenticatedSocket socket,
                               std::size_t bytes_max)
    : poller_(poller), socket_(std::move(socket)), bytes_max_(bytes_max) {
  poller_.add(socket_.fd.get(), EPOLLIN, [this](std::uint32_t) { on_ready(); });
  watched_ = true;
}

ControlChannel::~ControlChannel() { unwatch(); }

void ControlChannel::unwatch() {
  if (watched_) poller_.remove(socket_.fd.get());
  watched_ = false;
}

void ControlChannel::watch() {
  if (!watched_) return;
  const std::uint32_t in = messages_left_ > 0 && received_.size() < kReceivedMax ? EPOLLIN : 0u;
  const std::uint32_t out = unsent_.empty() ? 0u : EPOLLOUT;
  poller_.modify(socket_.fd.get(), in | out);
}

AuthenticatedSocket ControlChannel::release() {
  SYNCLINE_ASSERT(unsent_.empty(), "flush before release");
  unwatch();
  return std::move(socket_);
}

Digest ControlChannel::tag(const Secret& key, std::uint64_t number, Part payload) const {
  ByteWriter prefix;
  prefix.put(number);
  prefix.put(static_cast<std::uint32_t>(payload.size()));
  return hmac_sha256(part(key), {part(prefix.bytes()), payload});
}

void ControlChannel::send(const std::vector<std::byte>& message) {
  if (!status_.ok()) return;
  const Digest proof = tag(socket_.keys.send, sent_count_++, part(message));
  ByteWriter frame;
  frame.put(static_cast<std::uint32_t>(message.size()));
  frame.put_bytes(message);
  frame.put_bytes(part(proof));
  unsent_.insert(unsent_.end(), frame.bytes().begin(), frame.bytes().end());
  write();
  watch();
}

std::optional<std::vector<std::byte>> ControlChannel::receive() {
  if (received_.empty()) return std::nullopt;
  auto message = std::move(received_.front());
  received_.pop_front();
  watch();
  return message;
}

void ControlChannel::stop_reading_after(std::uint64_t messages) {
  messages_left_ = messages;
  watch();
}

void ControlChannel::on_ready() {
  write();
  read();
  watch();
}

void ControlChannel::read() {
  while (status_.ok() && messages_left_ > 0 && received_.size() < kReceivedMax && read_some()) {
  }
}

// One recv of no more than the current message lacks. False when the kernel has nothing.
bool ControlChannel::read_some() {
  std::size_t whole = kLengthBytes;
  if (incoming_.size() >= kLengthBytes) {
    std::uint32_t length = 0;
    std::memcpy(&length, incoming_.data(), kLengthBytes);
    if (length > bytes_max_) {
      fail(Code::kCorrupt, "announced a message of " + std::to_string(length) + " bytes");
      return false;
    }
    whole += length + wire::kTagBytes;
  }
  std::array<std::byte, kReadBytesMax> buffer;
  const std::size_t lacking = std::min(whole - incoming_.size(), buffer.size());
  const ssize_t got = ::recv(socket_.fd.get(), buffer.data(), lacking, 0);
  if (got < 0 && errno == EINTR) return true;
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
  if (got <= 0) {
    fail(Code::kLinkDown, got == 0 ? "closed the connection" : std::strerror(errno));
    return false;
  }
  incoming_.insert(incoming_.end(), buffer.begin(), buffer.begin() + got);
  if (whole > kLengthBytes && incoming_.size() == whole) take_message();
  return true;
}

void ControlChannel::take_message() {
  const Part all = part(incoming_);
  const Part payload = all.subspan(kLengthBytes, all.size() - kLengthBytes - wire::kTagBytes);
  const Digest expected = tag(socket_.keys.receive, received_count_++, payload);
  if (!equal_constant_time(part(expected), all.last(wire::kTagBytes))) {
    return fail(Code::kCorrupt, "sent a message that does not verify");
  }
  received_.emplace_back(payload.begin(), payload.end());
  incoming_.clear();
  if (messages_left_ != ~std::uint64_t{0}) --messages_left_;
}

void ControlChannel::write() {
  std::size_t done = 0;
  while (done < unsent_.size()) {
    const ssize_t put =
        ::send(socket_.fd.get(), unsent_.data() + done, unsent_.size() - done, MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (put < 0) {
      const std::string why = std::strerror(errno);
      unsent_.clear();
      read();  // the reason may lie there
      return fail(Code::kLinkDown, why);
    }
    done += static_cast<std::size_t>(put);
  }
  unsent_.erase(unsent_.begin(), unsent_.begin() + static_cast<std::ptrdiff_t>(done));
}

void ControlChannel::fail(Code code, const std::string& why) {
  if (!status_.ok()) return;
  status_ = Status(code, "rank " + std::to_string(socket_.peer_rank) + " at " +
                             socket_.peer_address + ": " + why)
                .with_peer(socket_.peer_rank);
  unsent_.clear();
  unwatch();
}

}  // namespace syncline::cluster
