// Frames into the core of a link: sequences of valid, damaged and invented frames. Nothing is
// delivered twice, and memory stays bounded.
#include <cstring>
#include <map>
#include <vector>

#include "cluster/link.h"
#include "kernels/crc32c.h"
#include "tests/fuzz/fuzz_target.h"

using namespace syncline;
using cluster::Incoming;
using cluster::Link;

namespace {

cluster::LinkConfig config() {
  cluster::LinkConfig config;
  config.peer_rank = 1;
  config.view = 1;
  config.self_incarnation = 10;
  config.peer_incarnation = 11;
  config.heals = true;
  config.dials = true;
  config.rails = 2;
  return config;
}

// Reads small numbers from the input; zero at its end.
class Choices {
 public:
  Choices(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  bool empty() const { return size_ == 0; }
  std::uint8_t next() {
    if (size_ == 0) return 0;
    --size_;
    return *data_++;
  }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
};

std::vector<std::byte> frame_of(Choices& choices, std::uint32_t due) {
  wire::Header header;
  header.type = static_cast<wire::Type>(choices.next() % 10);
  header.flags = choices.next() % 4 == 0 ? wire::kFlagFingerprint : 0;
  header.length = choices.next() * 3u;
  header.view = choices.next() % 8 == 0 ? 2 : 1;
  header.incarnation = 11;
  header.rail_seq = due + choices.next() % 4 - 1;
  header.step = choices.next() % 4;
  header.cum_ack = choices.next() % 16;
  std::vector<std::byte> frame(wire::kHeaderBytes + header.length, std::byte{choices.next()});
  header.payload_crc =
      header.length == 0 ? 0 : kernels::crc32c(frame.data() + wire::kHeaderBytes, header.length);
  wire::encode(header, frame.data());
  if (choices.next() % 8 == 0) frame[choices.next() % frame.size()] ^= std::byte{choices.next()};
  return frame;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Choices choices(data, size);
  Link link(config(), 0);
  Nanos now = 0;
  std::uint32_t next = 1;                      // due for the layer above
  std::map<std::uint32_t, std::size_t> queue;  // received, by number
  while (!choices.empty() && link.state() != Link::State::kClosed) {
    now += choices.next() * kMillisecond;
    switch (choices.next() % 7) {
      case 0: {
        transport::FrameHeader header;
        header.length = choices.next();
        const std::vector<std::byte> payload(header.length);
        link.send(header, payload.data());
        break;
      }
      case 1: {
        std::span<const std::byte> pieces[4];
        const int rail = choices.next() % 2;
        const std::size_t count = link.output(pieces, rail);
        if (count > 0) link.on_written(1 + choices.next() % pieces[0].size(), now, rail);
        break;
      }
      case 2:
        link.tick(now);
        link.take_actions();
        break;
      case 3: {
        const auto due = queue.find(next);
        if (due == queue.end()) break;
        link.consumed(due->first, due->second, now);
        queue.erase(due);
        ++next;
        break;
      }
      case 4: {
        const int rail = choices.next() % 2;
        if (choices.next() % 2 == 0) {
          link.on_connected(rail, now);
        } else {
          link.on_end("cut", now, rail);
        }
        break;
      }
      default: {
        const int rail = choices.next() % 2;
        const auto frame = frame_of(choices, next);
        link.on_heard(now, rail);
        if (!link.on_header(frame.data(), now, rail)) break;
        if (link.frame_bytes(rail) > frame.size()) break;  // a damaged length: the rest never comes
        transport::Frame out;
        std::uint32_t seq = 0;
        const Incoming what = link.on_frame(frame.data(), out, seq, now, rail);
        if (what == Incoming::kGoodbye) return 0;
        if (what != Incoming::kDeliver && what != Incoming::kSkip) break;
        fuzz::require(wire::distance(next, seq) >= 0, "a consumed frame does not come again");
        fuzz::require(queue.emplace(seq, frame.size()).second, "a frame is delivered once");
        break;
      }
    }
    fuzz::require(link.stored_bytes() <= config().window + wire::kHeaderBytes,
                  "the store is bounded");
  }
  return 0;
}
