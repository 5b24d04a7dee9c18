// What workers send to a server of key-value stores: what decodes, encodes to the same bytes; and a
// server that has made a key and a table, or a relay that knows a key, takes whatever worker 1
// sends then.
#include <algorithm>
#include <cstring>

#include "ps/server_core.h"
#include "tests/fuzz/fuzz_target.h"

using namespace syncline;

namespace {

using Bytes = std::span<const std::byte>;

void require_inverse(const std::vector<std::byte>& again, Bytes bytes) {
  fuzz::require(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()),
                "decode and encode are inverse");
}

std::vector<std::byte> message(ps::Request request, Bytes body) {
  request.inlined = static_cast<std::uint32_t>(body.size());
  std::vector<std::byte> bytes(ps::kRequestHeaderBytes);
  ps::encode(request,
             std::span<std::byte, ps::kRequestHeaderBytes>(bytes.data(), ps::kRequestHeaderBytes));
  bytes.insert(bytes.end(), body.begin(), body.end());
  return bytes;
}

void decode(std::uint8_t which, Bytes bytes) {
  switch (which) {
    case 0:
      if (const auto request = ps::decode_request(bytes); request.ok()) {
        require_inverse(message(request.value(), bytes.subspan(ps::kRequestHeaderBytes)), bytes);
      }
      break;
    case 1:
      if (const auto key = ps::decode_key(bytes); key.ok()) {
        require_inverse(ps::encode(key.value()), bytes);
      }
      break;
    case 2:
      if (const auto rules = ps::decode_rules(bytes); rules.ok()) {
        require_inverse(ps::encode(rules.value()), bytes);
      }
      break;
    case 3:
      if (const auto optimizer = ps::decode_optimizer(bytes); optimizer.ok()) {
        require_inverse(ps::encode(optimizer.value()), bytes);
      }
      break;
    case 4:
      if (const auto note = ps::decode_error(bytes); note.ok()) {
        fuzz::require(ps::encode(note.value()).size() <= ps::kErrorNoteBytes, "notes are short");
      }
      break;
    default:
      if (const auto stats = ps::decode_stats(bytes); stats.ok()) {
        require_inverse(ps::encode(stats.value()), bytes);
      }
      break;
  }
}

// A server with two workers, key 1 of 4 f32 and table 2 of rows of 3; or a relay with the key.
class Victim {
 public:
  explicit Victim(std::uint8_t mode)
      : relays_(mode >= 192),
        core_(2, 0, 1, relays_ ? ps::ServerRole::kRelay : ps::ServerRole::kKeeper) {
    ps::Rules rules;
    rules.bound = relays_ || mode % 3 == 0 ? 0 : mode % 3 == 1 ? 1 : ps::kUnbounded;
    rules.combine = mode % 2 == 0 ? ps::Combine::kSum : ps::Combine::kMeanBySamples;
    for (int worker = 0; worker < 2; ++worker) {
      say(worker, ps::RequestKind::kOpen, ps::encode(rules));
    }
    if (mode % 5 == 0 && !relays_) {
      say(0, ps::RequestKind::kOptimizer, ps::encode(optim::Adam()));
    }
    ps::KeyDescription key;
    key.name = "w";
    key.key = 1;
    key.count = 4;
    key.slices = {{0, 4, 0}};
    say(0, ps::RequestKind::kCreate, ps::encode(key));
    take();
    if (relays_) return;
    const float value[4] = {1, 2, 3, 4};
    ps::Request first = of(ps::RequestKind::kAssign);
    first.count = 4;
    fuzz::require(core_.on_request(0, message(first, std::as_bytes(std::span(value)))).ok(),
                  "the opening is valid");
    key.slices.clear();
    key.table = true;
    key.key = 2;
    key.count = 3;
    if (mode % 2 == 0) key.optimizer = optim::RowwiseAdagrad();
    say(0, ps::RequestKind::kCreate, ps::encode(key));
    take();
  }

  // Not ok: the worker is given up, as a server does.
  bool hear(int worker, Bytes bytes) {
    const bool ok = core_.on_request(worker, bytes).ok();
    if (!ok) core_.on_gone(worker);
    take();
    return ok;
  }
  void end_payload(bool arrived) {
    if (!relayed_.empty()) return end_relay(arrived);
    if (receives_.empty()) return;
    const ps::Receive receive = std::move(receives_.front());
    receives_.erase(receives_.begin());
    if (receive.bytes > 0) std::memset(receive.into.get(), 1, receive.bytes);
    core_.on_payload(receive.id, arrived);
    take();
  }
  // The other worker goes on, and ends what was begun.
  void end() {
    core_.on_gone(1);
    while (!receives_.empty() || !relayed_.empty()) end_payload(relays_);
    fuzz::require(core_.expected_bytes(1) == 0, "nothing is awaited from who is gone");
    ps::Request pull = of(ps::RequestKind::kPull);
    pull.clock = 1;
    say(0, ps::RequestKind::kClock, {}, 1);
    replies_ = 0;
    fuzz::require(core_.on_request(0, message(pull, {})).ok(), "the other one is served");
    take();
    while (!relayed_.empty()) end_relay(true);
    // A refusal is two: a note, and an answer without anything.
    fuzz::require(replies_ == 1 || (refused_ && replies_ >= 2), "the other one gets its answer");
  }

 private:
  void end_relay(bool answered) {
    ps::Relay relay = std::move(relayed_.front());
    relayed_.erase(relayed_.begin());
    refused_ = refused_ || !answered;
    const Status lost(Code::kPeerLost, "a server is gone");
    core_.on_relayed(std::move(relay), answered ? Status() : lost);
    take();
  }
  static ps::Request of(ps::RequestKind kind) {
    ps::Request request;
    request.kind = kind;
    request.key = 1;
    request.tag = ps::first_reply_tag(request.store);
    return request;
  }
  void say(int worker, ps::RequestKind kind, Bytes body, std::uint64_t clock = 0) {
    ps::Request request = of(kind);
    request.clock = clock;
    fuzz::require(core_.on_request(worker, message(request, body)).ok(), "what is right is taken");
  }
  void take() {
    ps::Actions actions = core_.take_actions();
    for (ps::Relay& relay : actions.relays) relayed_.push_back(std::move(relay));
    for (const ps::ClockEnd& end : actions.clocks_ended) {
      fuzz::require(end.clock > told_, "clocks end once");
      told_ = end.clock;
    }
    for (ps::Receive& receive : actions.receives) {
      fuzz::require(receive.bytes <= ps::kRowBytesMax, "a request makes no room for more");
      receives_.push_back(std::move(receive));
    }
    for (const ps::Reply& reply : actions.replies) {
      fuzz::require(reply.bytes <= ps::kRowBytesMax, "an answer is no longer");
    }
    replies_ += actions.replies.size();
  }

  const bool relays_;
  ps::ServerCore core_;
  std::vector<ps::Receive> receives_;
  std::vector<ps::Relay> relayed_;
  std::uint64_t told_ = 0;
  bool refused_ = false;  // the relay's server was lost
  std::size_t replies_ = 0;
};

// Pieces of up to 255 bytes: a length, then the bytes; length 0 ends a payload. Half of them are
// completed to requests that decode, or a server would never be asked anything.
void attack(std::uint8_t mode, Bytes bytes) {
  Victim victim(mode);
  while (bytes.size() > 1) {
    const auto length = std::min(std::to_integer<std::size_t>(bytes[0]), bytes.size() - 1);
    std::vector<std::byte> piece(bytes.begin() + 1,
                                 bytes.begin() + 1 + static_cast<std::ptrdiff_t>(length));
    bytes = bytes.subspan(1 + length);
    if (length == 0) {
      victim.end_payload(bytes.size() % 2 == 0);
      continue;
    }
    if (length >= ps::kRequestHeaderBytes && mode % 2 == 0) {
      piece[0] = std::byte{1};
      const auto inlined = static_cast<std::uint32_t>(length - ps::kRequestHeaderBytes);
      std::memset(piece.data() + 2, 0, 2);  // its store, and a tag of it
      piece[12] |= std::byte{2};
      piece[14] &= std::byte{0x7f};
      piece[15] = std::byte{0};
      std::memset(piece.data() + 22, 0, 10);
      std::memcpy(piece.data() + 24, &inlined, sizeof inlined);
    }
    if (!victim.hear(1, piece)) break;
  }
  victim.end();
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const auto bytes = fuzz::bytes_of(data + 2, size - 2);
  if (data[0] % 12 < 6) {
    decode(data[0] % 12, bytes);
  } else {
    attack(data[1], bytes);
  }
  return 0;
}
