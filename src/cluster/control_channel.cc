#include "cluster/control_channel.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/planted.h"

namespace syncline::cluster {
namespace {

using transport::IoResult;
using transport::IoState;

constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kReadBytesMax = 16 * 1024;
// A peer that sends without waiting for answers is broken.
constexpr std::size_t kReceivedMax = 64;

}  // namespace

ControlChannel::ControlChannel(event::Poller& poller, AuthenticatedSocket socket,
                               std::size_t bytes_max)
    : socket_(std::move(socket)), bytes_max_(bytes_max), watch_(poller) {
  watch_.start(socket_.stream->fd(), EPOLLIN, [this](std::uint32_t) { on_ready(); });
}

void ControlChannel::progress() {
  if (status_.ok() && !watch_.running()) on_ready();
}

void ControlChannel::watch() {
  const std::uint32_t in = messages_left_ > 0 && received_.size() < kReceivedMax ? EPOLLIN : 0u;
  const std::uint32_t out = unsent_.empty() ? 0u : EPOLLOUT;
  watch_.change(in | out);
}

AuthenticatedSocket ControlChannel::release() {
  SYNCLINE_ASSERT(unsent_.empty(), "flush before release");
  watch_.stop();
  return std::move(socket_);
}

Digest ControlChannel::tag(const Secret& key, std::uint64_t number, Part payload) const {
  ByteWriter prefix;
  prefix.put(SYNCLINE_PLANTED(repeats_believed) ? 0 : number);
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

// One read of no more than the current message lacks. False when nothing is there.
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
  const IoResult got = socket_.stream->read(std::span(buffer).first(lacking));
  if (got.state == IoState::kAgain) return false;
  if (got.state != IoState::kOk) {
    fail(Code::kLinkDown,
         got.state == IoState::kEof ? "closed the connection" : std::strerror(got.error));
    return false;
  }
  incoming_.insert(incoming_.end(), buffer.begin(),
                   buffer.begin() + static_cast<std::ptrdiff_t>(got.bytes));
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
    const auto piece = part(unsent_).subspan(done);
    const IoResult put = socket_.stream->write({&piece, 1});
    if (put.state == IoState::kAgain) break;
    if (put.state != IoState::kOk) {
      const std::string why = std::strerror(put.error);
      unsent_.clear();
      read();  // the reason may lie there
      return fail(Code::kLinkDown, why);
    }
    done += put.bytes;
  }
  unsent_.erase(unsent_.begin(), unsent_.begin() + static_cast<std::ptrdiff_t>(done));
}

void ControlChannel::fail(Code code, const std::string& why) {
  if (!status_.ok()) return;
  status_ = Status(code, "rank " + std::to_string(socket_.peer_rank) + " at " +
                             socket_.peer_address + ": " + why)
                .with_peer(socket_.peer_rank);
  unsent_.clear();
  watch_.stop();
}

}  // namespace syncline::cluster
