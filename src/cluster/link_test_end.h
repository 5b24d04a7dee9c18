// One end of a link under virtual time, for tests of the core: bytes travel through vectors.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "cluster/link.h"

namespace syncline::cluster {

struct LinkTestEnd {
  struct Received {
    transport::FrameHeader header;
    std::vector<std::byte> payload;
    std::uint32_t rail_seq = 0;
    std::size_t bytes = 0;
    Incoming kind = Incoming::kDeliver;
  };

  LinkTestEnd(int self, int peer, LinkConfig config = {})
      : link(with_ranks(self, peer, config), 0) {}

  static LinkConfig with_ranks(int self, int peer, LinkConfig config) {
    config.self_rank = self;
    config.peer_rank = peer;
    config.peer_host = "host-" + std::to_string(peer);
    if (config.self_incarnation == 0) config.self_incarnation = 100 + static_cast<unsigned>(self);
    if (config.peer_incarnation == 0) config.peer_incarnation = 100 + static_cast<unsigned>(peer);
    return config;
  }

  transport::SendResult send(std::uint64_t op, std::size_t bytes) {
    transport::FrameHeader header;
    header.op = op;
    header.length = static_cast<std::uint32_t>(bytes);
    const std::vector<std::byte> payload(bytes, static_cast<std::byte>(op));
    return link.send(header, payload.data());
  }

  // Everything that wants to leave, in writes of at most `chunk` bytes.
  std::vector<std::byte> take_output(Nanos now, std::size_t chunk = ~std::size_t{0}, int rail = 0) {
    std::vector<std::byte> out;
    std::array<std::span<const std::byte>, 3> pieces;
    while (link.has_output(rail)) {
      const std::size_t count = link.output(pieces, rail);
      if (count == 0) continue;
      std::size_t offered = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t part = std::min(pieces[i].size(), chunk - offered);
        out.insert(out.end(), pieces[i].begin(), pieces[i].begin() + static_cast<long>(part));
        offered += part;
      }
      link.on_written(offered, now, rail);
    }
    return out;
  }

  void receive(const std::vector<std::byte>& bytes, Nanos now, int rail = 0) {
    if (bytes.empty()) return;
    std::vector<std::byte>& inbox = inboxes[static_cast<std::size_t>(rail)];
    inbox.insert(inbox.end(), bytes.begin(), bytes.end());
    link.on_heard(now, rail);
    std::size_t at = 0;
    while (inbox.size() - at >= wire::kHeaderBytes) {
      if (!link.on_header(inbox.data() + at, now, rail)) break;
      if (inbox.size() - at < link.frame_bytes(rail)) break;
      ++types[static_cast<int>(inbox[at + 3])];
      Received received;
      transport::Frame frame;
      received.bytes = link.frame_bytes(rail);
      received.kind = link.on_frame(inbox.data() + at, frame, received.rail_seq, now, rail);
      if (received.kind == Incoming::kClosed) break;
      at += received.bytes;
      if (received.kind == Incoming::kControl) continue;
      received.header = frame.header;
      if (received.kind == Incoming::kDeliver) {
        received.payload.assign(frame.payload, frame.payload + frame.header.length);
      }
      EXPECT_TRUE(queue.emplace(received.rail_seq, std::move(received)).second) << "seen twice";
    }
    inbox.erase(inbox.begin(), inbox.begin() + static_cast<long>(at));
  }

  // The oldest delivered frame's op, consumed; -1 if none. Passes skipped frames and the goodbye.
  std::int64_t pop(Nanos now) {
    while (!queue.empty() && queue.begin()->first == next_seq) {
      const Received received = std::move(queue.begin()->second);
      queue.erase(queue.begin());
      ++next_seq;
      if (received.kind == Incoming::kGoodbye) {
        link.goodbye_reached();
        continue;
      }
      link.consumed(received.rail_seq, received.bytes, now);
      if (received.kind == Incoming::kSkip) continue;
      for (const std::byte each : received.payload) {
        EXPECT_EQ(each, static_cast<std::byte>(received.header.op));
      }
      return static_cast<std::int64_t>(received.header.op);
    }
    return -1;
  }

  int count(wire::Type type) const { return types[static_cast<int>(type)]; }

  Link link;
  // A connection: what was read in part of the old one is gone.
  void connect(Nanos now, int rail = 0) {
    inboxes[static_cast<std::size_t>(rail)].clear();
    link.on_connected(rail, now);
  }

  std::array<std::vector<std::byte>, 4> inboxes;  // by rail
  std::map<std::uint32_t, Received> queue;        // by number
  std::uint32_t next_seq = 1;
  int types[10] = {};  // frames seen on the wire, by type
};

inline void exchange(LinkTestEnd& a, LinkTestEnd& b, Nanos now) {
  while (a.link.has_output() || b.link.has_output()) {
    b.receive(a.take_output(now), now);
    a.receive(b.take_output(now), now);
  }
}

}  // namespace syncline::cluster
