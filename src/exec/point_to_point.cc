#include "exec/point_to_point.h"

#include <algorithm>
#include <cstring>

#include "base/clock.h"

namespace syncline::exec {
namespace {

constexpr int kFramesPerRun = 8;  // of one message, so that others get their turn

Channel* channel_of(const MessageRequest& request) {
  return request.group->peers[static_cast<std::size_t>(request.peer)];
}

}  // namespace

PointToPoint::Peer& PointToPoint::peer_of(Channel& channel) {
  Peer& peer = peers_[&channel];
  peer.channel = &channel;
  return peer;
}

void PointToPoint::begin(MessageRequest&& request, std::shared_ptr<WorkState> work, Nanos deadline,
                         const Status& refusal) {
  Transfers& list = request.sends ? sends_ : receives_;
  Transfer& transfer = list.emplace_back();
  const auto at = std::prev(list.end());
  ++pending_;
  transfer.bytes = request.count * size_of(request.type);
  transfer.request = std::move(request);
  transfer.work = std::move(work);
  transfer.deadline = deadline;
  if (!refusal.ok()) {
    finish(list, at, refusal);
    return;
  }
  if (transfer.request.sends) {
    transfer.id = next_id_++;
    if (transfer.request.peer == transfer.request.group->rank) return begin_local_send(at);
    transfer.peer = &peer_of(*channel_of(transfer.request));
    transfer.peer->queued.push_back(at);
    return;
  }
  transfer.state = State::kPosted;
  for (auto message = arrived_.begin(); message != arrived_.end(); ++message) {
    if (message->comm != transfer.request.group->id || !fits(transfer.request, *message)) continue;
    Arrived taken = std::move(*message);
    if (!taken.payload.empty()) taken.data = taken.payload.data();
    arrived_.erase(message);
    drop(taken);
    deliver(at, taken);
    return;
  }
}

// A message to the own rank needs no frames, but follows the same rules.
void PointToPoint::begin_local_send(Transfers::iterator send) {
  const MessageRequest& request = send->request;
  Arrived message;
  message.comm = request.group->id;
  message.envelope = {request.type, request.tag, request.count};
  message.data = static_cast<const std::byte*>(request.data);
  const auto receive = find_receive(message, *request.group);
  if (receive != receives_.end()) {
    deliver(receive, message);
    finish(sends_, send, {});
    return;
  }
  const std::size_t cost = send->bytes + kEnvelopeBytes;
  if (send->bytes <= kEagerBytesMax && local_bytes_ + cost <= kEagerCredit) {
    local_bytes_ += cost;
    keep(std::move(message));
    finish(sends_, send, {});
    return;
  }
  message.announced = true;
  message.local = send;
  send->state = State::kAnnounced;
  arrived_.push_back(std::move(message));
}

bool PointToPoint::run() {
  bool moved = false;
  for (auto& [channel, peer] : peers_) {
    if (run_peer(peer)) moved = true;
  }
  return moved;
}

bool PointToPoint::run_peer(Peer& peer) {
  bool moved = !peer.controls.empty() && flush(peer);
  if (!peer.controls.empty()) return moved;
  for (std::size_t i = 0; i < peer.streaming.size();) {
    const auto send = peer.streaming[i];
    if (stream(*send)) moved = true;
    if (send->moved == send->bytes) {
      finish(sends_, send, {});
      moved = true;
    } else {
      ++i;
    }
  }
  while (!peer.queued.empty() && start_send(peer.queued.front())) moved = true;
  return moved;
}

transport::FrameHeader PointToPoint::header_of(const Transfer& send, wire::MessageStep step) const {
  transport::FrameHeader header;
  header.flags = wire::kMessageFlag;
  header.comm = send.request.group->id;
  header.op = wire::kMessageOp | send.id;
  header.step = static_cast<std::uint32_t>(step);
  return header;
}

// The oldest queued send of its peer; those behind it wait until it went out.
bool PointToPoint::start_send(Transfers::iterator send) {
  Peer& peer = *send->peer;
  const MessageRequest& request = send->request;
  const std::size_t cost = send->bytes + kEnvelopeBytes;
  const bool eager = send->bytes <= std::min(kEagerBytesMax, request.segment_bytes) &&
                     peer.eager_bytes + cost <= kEagerCredit;
  if (!eager && peer.announced.size() >= kAnnouncedMax) return false;
  auto header = header_of(*send, eager ? wire::MessageStep::kEager : wire::MessageStep::kAnnounce);
  const bool at_once = !eager && request.at_once && peer.channel->endpoint->is_far() &&
                       peer.at_once_bytes + send->bytes <= kAtOnceCredit;
  header.segment = at_once ? wire::kAtOnce : 0;
  header.length = eager ? static_cast<std::uint32_t>(send->bytes) : 0;
  header.has_fingerprint = true;
  header.fingerprint = wire::pack(wire::Envelope{request.type, request.tag, request.count});
  if (peer.channel->endpoint->try_send(header, request.data) != transport::SendResult::kAccepted) {
    return false;
  }
  if (eager) {
    peer.eager_bytes += cost;
    finish(sends_, send, {});  // takes it out of the queue
    return true;
  }
  peer.queued.pop_front();
  if (at_once) {
    peer.at_once_bytes += send->bytes;
    send->state = State::kStreaming;
    peer.streaming.push_back(send);
    return true;
  }
  peer.announced.emplace(send->id, send);
  send->state = State::kAnnounced;
  return true;
}

bool PointToPoint::stream(Transfer& send) {
  bool moved = false;
  for (int i = 0; i < kFramesPerRun && send.moved < send.bytes; ++i) {
    auto header = header_of(send, wire::MessageStep::kBytes);
    const std::size_t bytes = std::min(send.request.segment_bytes, send.bytes - send.moved);
    header.segment = send.frames;
    header.yields = send.request.at_once;  // whoever asked for that has something urgent behind it
    header.length = static_cast<std::uint32_t>(bytes);
    const auto* data = static_cast<const std::byte*>(send.request.data) + send.moved;
    if (send.peer->channel->endpoint->try_send(header, data) != transport::SendResult::kAccepted) {
      return moved;
    }
    send.moved += bytes;
    ++send.frames;
    moved = true;
  }
  return moved;
}

void PointToPoint::control(Peer& peer, wire::MessageStep step, std::uint32_t comm, std::uint64_t id,
                           std::uint32_t value, const wire::Envelope* envelope) {
  transport::FrameHeader header;
  header.flags = wire::kMessageFlag;
  header.comm = comm;
  header.op = wire::kMessageOp | id;
  header.step = static_cast<std::uint32_t>(step);
  header.segment = value;
  if (envelope != nullptr) {
    header.has_fingerprint = true;
    header.fingerprint = wire::pack(*envelope);
  }
  peer.controls.push_back(header);
  ++pending_;
  flush(peer);
}

bool PointToPoint::flush(Peer& peer) {
  bool moved = false;
  while (!peer.controls.empty()) {
    const auto result = peer.channel->endpoint->try_send(peer.controls.front(), nullptr);
    if (result == transport::SendResult::kWouldBlock) break;
    peer.controls.pop_front();  // a closed endpoint takes nothing more
    --pending_;
    moved = true;
  }
  return moved;
}

// Not for each message: a quarter of the credit may be on its way back.
void PointToPoint::return_credit(Peer& peer, std::size_t bytes) {
  peer.owed_credit += bytes;
  if (peer.owed_credit < kEagerCredit / 4) return;
  control(peer, wire::MessageStep::kCredit, 0, 0, static_cast<std::uint32_t>(peer.owed_credit));
  peer.owed_credit = 0;
}

void PointToPoint::return_at_once(Peer& peer, std::size_t bytes) {
  peer.owed_at_once += bytes;
  if (peer.owed_at_once < kAtOnceCredit / 4) return;
  control(peer, wire::MessageStep::kAtOnceCredit, 0, 0,
          static_cast<std::uint32_t>(peer.owed_at_once));
  peer.owed_at_once = 0;
}

PointToPoint::Transfers::iterator PointToPoint::finish(Transfers& list,
                                                       Transfers::iterator transfer,
                                                       const Status& status) {
  Peer* const peer = transfer->peer;
  if (transfer->state == State::kAnnounced && peer == nullptr) {
    std::erase_if(arrived_, [&](const Arrived& message) {
      return message.announced && message.peer == nullptr && message.local == transfer;
    });
  } else if (transfer->state == State::kAnnounced) {
    peer->announced.erase(transfer->id);
  } else if (transfer->state == State::kStreaming) {
    std::erase(peer->streaming, transfer);
  } else if (transfer->state == State::kQueued && peer != nullptr) {
    peer->queued.erase(std::find(peer->queued.begin(), peer->queued.end(), transfer));
  }
  --pending_;
  transfer->work->complete(status.ok() ? status : status.with_operation(label(transfer->request)),
                           completions_);
  return list.erase(transfer);
}

bool PointToPoint::awaits(const Channel& channel) const {
  for (const Transfer& send : sends_) {
    if (send.peer != nullptr && send.peer->channel == &channel) return true;
  }
  for (const Transfer& receive : receives_) {
    const MessageRequest& request = receive.request;
    if (receive.state == State::kReceiving) {
      if (receive.peer->channel == &channel) return true;
    } else if (request.peer != kAnySource) {
      if (channel_of(request) == &channel) return true;
    } else if (std::count(request.group->peers.begin(), request.group->peers.end(), &channel) > 0) {
      return true;
    }
  }
  return false;
}

bool PointToPoint::uses(const Group& group) const {
  const auto same = [&](const Transfer& transfer) { return transfer.request.group == &group; };
  return std::any_of(sends_.begin(), sends_.end(), same) ||
         std::any_of(receives_.begin(), receives_.end(), same);
}

std::size_t PointToPoint::kept_bytes() const {
  std::size_t bytes = local_bytes_;
  for (const auto& [channel, peer] : peers_) bytes += peer.kept_bytes + peer.kept_at_once;
  return bytes;
}

std::string PointToPoint::rank_name(const Group& group, int group_rank) {
  const Channel* const peer = group.peers[static_cast<std::size_t>(group_rank)];
  if (peer != nullptr) return peer->short_name();
  return "rank " + std::to_string(group.world_ranks[static_cast<std::size_t>(group_rank)]);
}

std::string PointToPoint::label(const MessageRequest& request) {
  std::string text = request.sends ? "send to " : "recv from ";
  text += request.peer == kAnySource ? "any rank" : rank_name(*request.group, request.peer);
  text += request.tag == kAnyTag ? ", any tag" : ", tag " + std::to_string(request.tag);
  if (request.group->id != 1) text += " (group " + std::to_string(request.group->id) + ")";
  return text;
}

}  // namespace syncline::exec
