// PointToPoint: sends and receives that end otherwise than by their message.
#include <algorithm>

#include "base/clock.h"
#include "exec/point_to_point.h"

namespace syncline::exec {

void PointToPoint::end_group(const Group& group, const Status& why) {
  for (Transfers* list : {&sends_, &receives_}) {
    for (auto at = list->begin(); at != list->end();) {
      at = at->request.group == &group ? finish(*list, at, why) : std::next(at);
    }
  }
  for (auto message = arrived_.begin(); message != arrived_.end();) {
    if (message->comm != group.id) {
      ++message;
      continue;
    }
    drop(*message);
    message = arrived_.erase(message);
  }
}

void PointToPoint::peer_left(Channel& channel, const Status& why) {
  const auto lost = [&](const Transfer& transfer) {
    return Status(Code::kPeerLost, channel.peer + " has left the job; " + awaited(transfer))
        .with_peer(channel.world_rank)
        .caused_by(why);
  };
  for (auto send = sends_.begin(); send != sends_.end();) {
    const bool ends = send->peer != nullptr && send->peer->channel == &channel;
    send = ends ? finish(sends_, send, lost(*send)) : std::next(send);
  }
  const auto is_gone = [](const Channel* peer) {
    return peer == nullptr || peer->lost || !peer->endpoint->status().ok();
  };
  for (auto receive = receives_.begin(); receive != receives_.end();) {
    const MessageRequest& request = receive->request;
    const auto& peers = request.group->peers;
    bool ends = false;
    if (receive->state == State::kReceiving) {
      ends = receive->peer->channel == &channel;
    } else if (request.peer != kAnySource) {
      ends = peers[static_cast<std::size_t>(request.peer)] == &channel;
    } else {
      ends = std::count(peers.begin(), peers.end(), &channel) > 0 &&
             std::all_of(peers.begin(), peers.end(), is_gone);
    }
    receive = ends ? finish(receives_, receive, lost(*receive)) : std::next(receive);
  }
}

void PointToPoint::check_deadlines(Nanos now) {
  for (Transfers* list : {&sends_, &receives_}) {
    for (auto at = list->begin(); at != list->end();) {
      if (now < at->deadline) {
        ++at;
        continue;
      }
      // The peer may have taken the announcement for good.
      const bool announced = at->state == State::kAnnounced || at->state == State::kStreaming;
      if (announced && at->peer != nullptr) {
        control(*at->peer, wire::MessageStep::kWithdraw, at->request.group->id, at->id);
      }
      at = finish(*list, at,
                  Status(Code::kTimeout, "not finished after " + seconds_text(at->request.timeout) +
                                             ": " + awaited(*at) +
                                             "; check what that rank does, or raise the timeout"));
    }
  }
}

void PointToPoint::end_all(const Status& why) {
  for (Transfers* list : {&sends_, &receives_}) {
    while (!list->empty()) finish(*list, list->begin(), why);
  }
  arrived_.clear();
  peers_.clear();
  pending_ = 0;
}

std::string PointToPoint::awaited(const Transfer& transfer) {
  const MessageRequest& request = transfer.request;
  const std::string who = request.peer == kAnySource ? std::string("any rank")
                                                     : rank_name(*request.group, request.peer);
  switch (transfer.state) {
    case State::kQueued:
      return "there is no room for it on the way to " + who;
    case State::kAnnounced:
      return who + " has posted no receive for it";
    case State::kStreaming:
      return who + " takes its bytes no longer";
    case State::kPosted:
      return "no such message came from " + who;
    case State::kReceiving:
      return std::to_string(transfer.moved) + " of " + std::to_string(transfer.bytes) +
             " bytes came from " + transfer.peer->channel->peer;
  }
  return {};
}

}  // namespace syncline::exec
