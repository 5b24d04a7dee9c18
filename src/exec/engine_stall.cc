// Engine: operations that do not move. The waiting rank asks all ranks of the group, since the one
// that it waits for may itself wait for another; the answers go into the log and into the message
// of a timeout.
//
//   waiting rank   --- notify, step kAskWhere: "I wait in operation n" ------------->   peer
//                  <-- notify kNotInIt: "has not called it; its last call was ..." --
//                  <-- notify kWaitsToo: "is in it too and waits for ..." -----------
#include <algorithm>

#include "exec/engine.h"
#include "wire/fingerprint.h"
#include "wire/messages.h"

namespace syncline::exec {
namespace {

constexpr Nanos kFrontPatience = 200 * kMillisecond;

}  // namespace

// Frames of calls that this rank has not made yet stay in the channel: that holds fast peers back.
// Not for ever, since what stands behind them may be a question or an abort.
void Engine::watch_front(Channel& channel, Nanos now) {
  if (channel.lost) return;
  if (channel.front(++pass_) == nullptr) {
    channel.blocked_since = 0;
    channel.aside = false;
  } else if (channel.blocked_since == 0 || channel.pops != channel.pops_seen) {
    channel.blocked_since = now;
  }
  channel.pops_seen = channel.pops;
  if (channel.blocked_since != 0 && now - channel.blocked_since >= kFrontPatience) {
    channel.aside = true;
  }
}

void Engine::watch_stalls(Nanos now) {
  if (options_.stall <= 0) return;
  for (const auto& operation : operations_) {
    // A short deadline is no excuse: its message shall have the answers.
    const Nanos timeout = operation->request().timeout;
    const Nanos patience = timeout > 0 ? std::min(options_.stall, timeout / 2) : options_.stall;
    if (!operation->stall_due(now, patience)) continue;
    log("stall: " + operation->label() + " has not moved for " +
        seconds_text(now - operation->still_since()) + "; it waits for " + operation->awaiting());
    record_waiting(flight::Kind::kStall, *operation);
    transport::FrameHeader question = operation->inquiry();
    question.step = kAskWhere;
    const Group& group = operation->group();
    for (Channel* channel : group.peers) {
      if (channel == nullptr || channel->lost) continue;
      channel->endpoint->try_send(question, nullptr);
    }
  }
}

void Engine::tell_where(Channel& channel, const transport::FrameHeader& question) {
  const auto found = groups_.find(question.comm);
  wire::NotifyMessage answer{wire::NotifyKind::kNotInIt, options_.rank, 0, ""};
  if (found == groups_.end()) {
    answer.text = "does not have this group";
  } else if (const Operation* operation = find_operation(question.comm, question.op)) {
    answer.kind = wire::NotifyKind::kWaitsToo;
    answer.text = "is in it too and waits for " + operation->awaiting();
  } else if (question.op <= found->second->admitted_op) {
    answer.text = "has ended it";
  } else {
    answer.text = "has not called it; " + last_call(*found->second);
  }
  const std::vector<std::byte> payload = wire::encode(answer);
  transport::FrameHeader header;
  header.type = transport::FrameType::kNotify;
  header.comm = question.comm;
  header.op = question.op;
  header.length = static_cast<std::uint32_t>(payload.size());
  channel.endpoint->try_send(header, payload.data());  // lost when full: it is asked again
}

std::string Engine::last_call(const Group& group) const {
  if (group.admitted_op == 0) return "it has called nothing in this group";
  const auto& fingerprint = group.called[group.admitted_op % group.called.size()];
  std::string text = "its last call was #" + std::to_string(group.admitted_op) + " " +
                     wire::describe(wire::unpack(fingerprint));
  if (find_operation(group.id, group.admitted_op) != nullptr) return text + ", which still runs";
  if (!group.last_name.empty()) text += " '" + group.last_name + "'";
  return text + ", which ended " + seconds_text(last_tick_ - group.last_ended) + " ago";
}

void Engine::note_where(const Channel& channel, const transport::FrameHeader& header,
                        const wire::NotifyMessage& answer) {
  Operation* operation = find_operation(header.comm, header.op);
  if (operation == nullptr) return;  // it has ended in the meantime
  const bool waits_too = answer.kind == wire::NotifyKind::kWaitsToo;
  const int rank = group_rank_of(operation->group(), channel);
  const bool tells =
      waits_too ? operation->awaits(rank) : answer.kind == wire::NotifyKind::kNotInIt;
  if (!tells) return;
  operation->add_verdict(channel.peer + " " + answer.text, waits_too ? -1 : channel.world_rank);
  record_message(flight::Kind::kVerdict, channel, header.comm, header.op, -1,
                 static_cast<std::uint8_t>(answer.kind), answer.text);
  log("stall: " + operation->label() + ": " + channel.peer + " " + answer.text);
}

}  // namespace syncline::exec
