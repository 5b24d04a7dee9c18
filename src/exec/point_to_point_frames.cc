// PointToPoint: what arrives, and which receive takes it.
#include <algorithm>
#include <cstring>

#include "exec/point_to_point.h"

namespace syncline::exec {
namespace {

std::size_t bytes_of(const wire::Envelope& envelope) {
  return envelope.count * size_of(envelope.dtype);
}

Status broken_rule(const std::string& what) {
  return Status(Code::kCorrupt, what + "; run the same Syncline release on every rank");
}

}  // namespace

Status PointToPoint::take(Channel& channel, const transport::Frame& frame, Group* group,
                          bool dead) {
  Peer& peer = peer_of(channel);
  const transport::FrameHeader& header = frame.header;
  const std::uint64_t id = header.op & ~wire::kMessageOp;
  switch (static_cast<wire::MessageStep>(header.step)) {
    case wire::MessageStep::kEager:
    case wire::MessageStep::kAnnounce:
      return take_envelope(peer, frame, group, dead);
    case wire::MessageStep::kClear:
      take_clear(peer, id);
      return {};
    case wire::MessageStep::kBytes:
      return take_bytes(peer, frame);
    case wire::MessageStep::kCredit:
      peer.eager_bytes -= std::min<std::size_t>(peer.eager_bytes, header.segment);
      return {};
    case wire::MessageStep::kAtOnceCredit:
      peer.at_once_bytes -= std::min<std::size_t>(peer.at_once_bytes, header.segment);
      return {};
    case wire::MessageStep::kRefuse:
      take_refusal(peer, header);
      return {};
    case wire::MessageStep::kWithdraw:
      take_withdrawal(peer, id);
      return {};
  }
  return {};  // of a later release
}

Status PointToPoint::take_envelope(Peer& peer, const transport::Frame& frame, Group* group,
                                   bool dead) {
  const transport::FrameHeader& header = frame.header;
  if (!header.has_fingerprint) return broken_rule("a message without an envelope");
  const auto envelope = wire::unpack_envelope(header.fingerprint);
  if (!envelope.ok()) return envelope.status();
  Arrived message;
  message.comm = header.comm;
  message.peer = &peer;
  message.envelope = envelope.value();
  message.announced = header.step == static_cast<std::uint32_t>(wire::MessageStep::kAnnounce);
  message.at_once = message.announced && header.segment == wire::kAtOnce;
  message.id = header.op & ~wire::kMessageOp;
  message.data = frame.payload;
  const std::size_t width = size_of(message.envelope.dtype);
  if (!message.announced &&
      (message.envelope.count != header.length / width || header.length % width != 0)) {
    return broken_rule("a message that is not as long as its envelope says");
  }
  if (message.at_once && message.envelope.count > (kAtOnceCredit - peer.kept_at_once) / width) {
    return broken_rule("more bytes at once than there is credit for");
  }
  if (dead) {
    if (message.at_once) return_at_once(peer, bytes_of(message.envelope));
    if (message.announced) {
      control(peer, wire::MessageStep::kRefuse, message.comm, message.id,
              static_cast<std::uint32_t>(wire::MessageRefusal::kNoGroup));
    } else {
      return_credit(peer, header.length + kEnvelopeBytes);
    }
    return {};
  }
  const auto receive = group == nullptr ? receives_.end() : find_receive(message, *group);
  if (receive != receives_.end()) {
    if (!message.announced) return_credit(peer, header.length + kEnvelopeBytes);
    if (message.at_once) return_at_once(peer, bytes_of(message.envelope));
    deliver(receive, message);
    return {};
  }
  keep(std::move(message));
  if (peer.kept_bytes > kEagerCredit || peer.kept_announced > kAnnouncedMax) {
    return broken_rule("more messages than there is credit for");
  }
  return {};
}

void PointToPoint::keep(Arrived&& message) {
  if (!message.announced) {
    const std::size_t bytes = message.envelope.count * size_of(message.envelope.dtype);
    if (bytes != 0) message.payload.assign(message.data, message.data + bytes);
    message.data = nullptr;
    if (message.peer != nullptr) message.peer->kept_bytes += bytes + kEnvelopeBytes;
  } else if (message.peer != nullptr) {
    ++message.peer->kept_announced;
    if (message.at_once) {
      message.payload.reserve(bytes_of(message.envelope));
      message.peer->kept_at_once += bytes_of(message.envelope);
    }
  }
  arrived_.push_back(std::move(message));
}

// What was kept is kept no longer: the sender may send as much again.
void PointToPoint::drop(const Arrived& message) {
  const std::size_t cost = message.payload.size() + kEnvelopeBytes;
  if (message.peer == nullptr) {
    if (!message.announced) local_bytes_ -= cost;
  } else if (message.announced) {
    --message.peer->kept_announced;
    if (!message.at_once) return;
    message.peer->kept_at_once -= bytes_of(message.envelope);
    return_at_once(*message.peer, bytes_of(message.envelope));
  } else {
    message.peer->kept_bytes -= cost;
    return_credit(*message.peer, cost);
  }
}

bool PointToPoint::fits(const MessageRequest& receive, const Arrived& message) {
  if (receive.tag != kAnyTag && receive.tag != message.envelope.tag) return false;
  if (receive.peer == kAnySource) return true;
  const Channel* from = receive.group->peers[static_cast<std::size_t>(receive.peer)];
  return from == (message.peer == nullptr ? nullptr : message.peer->channel);
}

PointToPoint::Transfers::iterator PointToPoint::find_receive(const Arrived& message, Group& group) {
  return std::find_if(receives_.begin(), receives_.end(), [&](const Transfer& receive) {
    return receive.state == State::kPosted && receive.request.group == &group &&
           fits(receive.request, message);
  });
}

void PointToPoint::deliver(Transfers::iterator receive, Arrived& message) {
  MessageRequest& request = receive->request;
  if (message.envelope.dtype != request.type || message.envelope.count > request.count) {
    return refuse_long(receive, message);
  }
  const Group& group = *request.group;
  int source = group.rank;
  if (message.peer != nullptr) {
    const auto found = std::find(group.peers.begin(), group.peers.end(), message.peer->channel);
    source = static_cast<int>(found - group.peers.begin());
  }
  if (request.info != nullptr) {
    *request.info = {source, message.envelope.tag,
                     static_cast<std::size_t>(message.envelope.count)};
  }
  receive->bytes = message.envelope.count * size_of(request.type);
  if (message.announced && message.peer != nullptr) {
    if (!message.at_once) {
      control(*message.peer, wire::MessageStep::kClear, message.comm, message.id);
    }
    receive->state = State::kReceiving;
    receive->peer = message.peer;
    receive->id = message.id;
    receive->moved = message.payload.size();
    if (receive->moved != 0) std::memcpy(request.data, message.payload.data(), receive->moved);
    if (receive->moved == receive->bytes) finish(receives_, receive, {});
    return;
  }
  const void* from = message.announced ? message.local->request.data : message.data;
  if (receive->bytes != 0) std::memcpy(request.data, from, receive->bytes);
  if (message.announced) finish(sends_, message.local, {});
  finish(receives_, receive, {});
}

void PointToPoint::refuse_long(Transfers::iterator receive, Arrived& message) {
  const MessageRequest& request = receive->request;
  const Group& group = *request.group;
  const wire::Envelope room{request.type, message.envelope.tag, request.count};
  const int world_rank = message.peer == nullptr
                             ? group.world_ranks[static_cast<std::size_t>(group.rank)]
                             : message.peer->channel->world_rank;
  const Status status =
      Status(Code::kMismatch,
             "rank " + std::to_string(world_rank) + " sent " + wire::describe(message.envelope) +
                 " with tag " + std::to_string(message.envelope.tag) + ", " +
                 rank_name(group, group.rank) + " has room for " + wire::describe(room) +
                 "; receive into a tensor of the same type and at least that long")
          .with_peer(world_rank);
  if (message.announced && message.peer != nullptr) {
    control(*message.peer, wire::MessageStep::kRefuse, message.comm, message.id,
            static_cast<std::uint32_t>(wire::MessageRefusal::kDoesNotFit), &room);
  } else if (message.announced) {
    finish(sends_, message.local, status);
  }
  finish(receives_, receive, status);
}

// Not found: given up in the meantime.
void PointToPoint::take_clear(Peer& peer, std::uint64_t id) {
  const auto found = peer.announced.find(id);
  if (found == peer.announced.end()) return;
  found->second->state = State::kStreaming;
  peer.streaming.push_back(found->second);
  peer.announced.erase(found);
}

Status PointToPoint::take_bytes(Peer& peer, const transport::Frame& frame) {
  const std::uint64_t id = frame.header.op & ~wire::kMessageOp;
  const auto receive = std::find_if(receives_.begin(), receives_.end(), [&](const Transfer& at) {
    return at.state == State::kReceiving && at.peer == &peer && at.id == id;
  });
  if (receive == receives_.end()) return keep_bytes(peer, frame);
  if (frame.header.length > receive->bytes - receive->moved) {
    return broken_rule("a message that is longer than its envelope says");
  }
  auto* to = static_cast<std::byte*>(receive->request.data) + receive->moved;
  if (frame.header.length != 0) std::memcpy(to, frame.payload, frame.header.length);
  receive->moved += frame.header.length;
  if (receive->moved == receive->bytes) finish(receives_, receive, {});
  return {};
}

// Of a message that nobody has asked for yet, or that was given up in the meantime.
Status PointToPoint::keep_bytes(Peer& peer, const transport::Frame& frame) {
  const std::uint64_t id = frame.header.op & ~wire::kMessageOp;
  const auto message = std::find_if(arrived_.begin(), arrived_.end(), [&](const Arrived& at) {
    return at.peer == &peer && at.at_once && at.id == id;
  });
  if (message == arrived_.end()) return {};
  if (frame.header.length > bytes_of(message->envelope) - message->payload.size()) {
    return broken_rule("a message that is longer than its envelope says");
  }
  message->payload.insert(message->payload.end(), frame.payload,
                          frame.payload + frame.header.length);
  return {};
}

void PointToPoint::take_refusal(Peer& peer, const transport::FrameHeader& header) {
  const auto found = peer.announced.find(header.op & ~wire::kMessageOp);
  if (found == peer.announced.end()) return;
  const auto send = found->second;
  const MessageRequest& request = send->request;
  const std::string them = peer.channel->short_name();
  const auto room = wire::unpack_envelope(header.fingerprint);
  Status status(Code::kFailedPrecondition, them + " does not have this communicator any more");
  if (header.segment == static_cast<std::uint32_t>(wire::MessageRefusal::kDoesNotFit) &&
      room.ok()) {
    const wire::Envelope sent{request.type, request.tag, request.count};
    status = Status(Code::kMismatch,
                    rank_name(*request.group, request.group->rank) + " sent " +
                        wire::describe(sent) + " with tag " + std::to_string(request.tag) + ", " +
                        them + " has room for " + wire::describe(room.value()) +
                        "; receive into a tensor of the same type and at least that long");
  }
  finish(sends_, send, status.with_peer(peer.channel->world_rank));
}

void PointToPoint::take_withdrawal(Peer& peer, std::uint64_t id) {
  const auto message = std::find_if(arrived_.begin(), arrived_.end(), [&](const Arrived& at) {
    return at.peer == &peer && at.announced && at.id == id;
  });
  if (message != arrived_.end()) {
    drop(*message);
    arrived_.erase(message);
    return;
  }
  const auto receive = std::find_if(receives_.begin(), receives_.end(), [&](const Transfer& at) {
    return at.state == State::kReceiving && at.peer == &peer && at.id == id;
  });
  if (receive == receives_.end()) return;
  finish(receives_, receive,
         Status(Code::kCancelled, peer.channel->peer + " gave up its send; see the error there")
             .with_peer(peer.channel->world_rank));
}

}  // namespace syncline::exec
