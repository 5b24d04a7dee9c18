// Engine: frames that no lane has taken: aborts, early and out-of-order data.
#include <algorithm>

#include "base/planted.h"
#include "exec/engine.h"
#include "wire/fingerprint.h"
#include "wire/messages.h"

namespace syncline::exec {
namespace {

// A frame may be wanted within microseconds: only a standstill justifies the copy.
constexpr std::uint32_t kIdlePassesBeforeSpill = 64;
constexpr std::size_t kEarlyBytesMax = 64 << 20;
constexpr std::size_t kEarlyAbortsMax = 1024;

}  // namespace

bool Engine::look_at_fronts() {
  bool moved = false;
  for (const auto& channel : channels_) {
    const transport::Frame* frame = channel->front(pass_);
    if (frame == nullptr) continue;
    const bool taken = frame->header.type == transport::FrameType::kData
                           ? place_data_frame(*channel, *frame)
                           : take_control_frame(*channel, *frame);
    if (taken) moved = true;
  }
  return moved;
}

bool Engine::take_control_frame(Channel& channel, const transport::Frame& frame) {
  const std::span<const std::byte> payload(frame.payload, frame.header.length);
  const std::uint32_t comm = frame.header.comm;
  if (frame.header.type == transport::FrameType::kAbort) {
    auto message = wire::decode_abort(payload);
    const std::uint64_t op = frame.header.op;
    channel.pop();
    if (!message.ok()) {
      lose_channel(channel, message.status().with_peer(channel.world_rank));
      return true;
    }
    const Status why = Status(message->code, message->text).with_peer(message->peer);
    record_message(flight::Kind::kAbortReceived, channel, comm, op, message->peer,
                   static_cast<std::uint8_t>(message->code), message->text);
    const auto group = groups_.find(comm);
    if (group != groups_.end()) {
      // A rank that only sent has no call to fail: its next one learns that ranks disagreed.
      Group& known = *group->second;
      const bool between_calls = why.code() == Code::kMismatch && known.operations == 0;
      break_group(known, why, between_calls ? std::max(op, known.admitted_op + 1) : op, false);
    } else if (!is_dead(comm, nullptr) && early_aborts_.size() < kEarlyAbortsMax) {
      early_aborts_.emplace(comm, std::make_pair(why, op));  // this rank is still splitting
    }
    return true;
  }
  const transport::FrameHeader header = frame.header;
  if (header.has_fingerprint) {
    channel.pop();
    answer(channel, header);
    return true;
  }
  const auto message = wire::decode_notify(payload);
  channel.pop();
  if (message.ok()) note_where(channel, header, message.value());
  return true;  // what does not decode is of a later protocol version
}

// A peer waits for this rank and says in which operation. Nothing to say if that was not called
// here yet: it asks again. An abort that it has not seen may be stuck behind data for later calls.
void Engine::answer(Channel& channel, const transport::FrameHeader& inquiry) {
  const auto found = groups_.find(inquiry.comm);
  if (inquiry.step == kAskWhere) tell_where(channel, inquiry);
  if (found == groups_.end()) return;
  Group& group = *found->second;
  if (!group.broken.ok()) return send_abort(channel, group.id, group.broken_op, group.broken);
  const bool called = inquiry.op <= group.admitted_op;
  const bool remembered = inquiry.op + group.called.size() > group.admitted_op;
  if (!called || !remembered) return;
  if (group.called[inquiry.op % group.called.size()] != inquiry.fingerprint) {
    break_by_disagreement(group, channel, inquiry);
  }
}

bool Engine::place_data_frame(Channel& channel, const transport::Frame& frame) {
  const transport::FrameHeader& header = frame.header;
  if ((header.flags & wire::kMessageFlag) != 0) {
    take_message(channel, frame);
    return true;
  }
  if (Operation* operation = find_operation(header.comm, header.op)) {
    const int rank = group_rank_of(operation->group(), channel);
    if (rank < 0 || !operation->check_fingerprint(rank, header)) return true;
    if (idle_passes_ < kIdlePassesBeforeSpill || !operation->spill(rank, frame)) return false;
    spilled_frames_.fetch_add(1, std::memory_order_relaxed);
    channel.pop();
    return true;
  }
  const auto group = groups_.find(header.comm);
  if (is_dead(header.comm, group == groups_.end() ? nullptr : group->second.get())) {
    channel.pop();
    return true;
  }
  if (group != groups_.end() && header.op <= group->second->admitted_op) {
    // It ended here without this frame, so the sender meant another one: as when two ranks both
    // take themselves for the root of a broadcast.
    const transport::FrameHeader leftover = header;
    channel.pop();
    break_by_disagreement(*group->second, channel, leftover);
    return true;
  }
  // Not called here yet. It may stay where it is unless it blocks somebody, or for long: an abort
  // or a question may stand behind it.
  const bool blocks = idle_passes_ >= kIdlePassesBeforeSpill &&
                      (find_waiting(channel) != nullptr || messages_.awaits(channel));
  if (!blocks && !channel.aside) return false;
  if (early_bytes_ + header.length > kEarlyBytesMax) return false;
  early_bytes_ += header.length;
  if (SYNCLINE_PLANTED(early_frames_dropped)) return channel.pop(), true;
  early_[{header.comm, header.op}].push_back(
      {&channel, header, {frame.payload, frame.payload + header.length}});
  spilled_frames_.fetch_add(1, std::memory_order_relaxed);
  channel.pop();
  return true;
}

void Engine::break_by_disagreement(Group& group, const Channel& channel,
                                   const transport::FrameHeader& header) {
  std::string text = "ranks disagree on operation #" + std::to_string(header.op) + ": ";
  if (header.has_fingerprint && header.op + group.called.size() > group.admitted_op) {
    const int ours = group.world_ranks[static_cast<std::size_t>(group.rank)];
    const auto& called = group.called[header.op % group.called.size()];
    text += wire::describe_mismatch(ours, wire::unpack(called), channel.world_rank,
                                    wire::unpack(header.fingerprint));
  } else {
    text += channel.peer + " sent data that this rank had no use for";
  }
  text += "; make all ranks call the same collectives in the same order";
  const Status why = Status(Code::kMismatch, std::move(text)).with_peer(channel.world_rank);
  if (header.has_fingerprint) group.disputed = header.fingerprint;
  const bool between_calls = group.operations == 0;  // then the next call learns it
  break_group(group, why, group.admitted_op + (between_calls ? 1 : 0), true);
}

Operation* Engine::find_waiting(const Channel& channel) const {
  for (const auto& operation : operations_) {
    const int rank = group_rank_of(operation->group(), channel);
    if (rank >= 0 && operation->awaits(rank)) return operation.get();
  }
  return nullptr;
}

void Engine::fail_operation(Operation& operation) {
  const Status why = operation.status();  // the operation is recycled before peers are told
  break_group(operation.group(), why, operation.number(), operation.group().broken.ok());
}

// Ends every operation of the group; the operation at fault keeps its own status.
void Engine::break_group(Group& group, const Status& why, std::uint64_t op, bool tell) {
  if (group.broken.ok()) {
    group.broken = why;
    group.broken_op = op;
    record_break(group, why, op);
  }
  for (const auto& operation : operations_) {
    if (&operation->group() == &group) operation->fail(why);
  }
  for (std::size_t i = 0; i < operations_.size();) {
    if (&operations_[i]->group() == &group) {
      finish(i);
    } else {
      ++i;
    }
  }
  messages_.end_group(group, why);
  if (!tell) return;
  for (Channel* channel : group.peers) {
    if (channel != nullptr) send_abort(*channel, group.id, op, why);
  }
}

void Engine::send_abort(Channel& channel, std::uint32_t comm, std::uint64_t op, const Status& why) {
  if (SYNCLINE_PLANTED(nobody_told)) return;
  OwedAbort abort;
  abort.channel = &channel;
  const std::string self =
      options_.name.empty() ? "rank " + std::to_string(options_.rank) : options_.name;
  // Whoever leaves in the middle is at fault itself.
  const int blamed = why.peer() < 0 && why.code() == Code::kShutdown ? options_.rank : why.peer();
  abort.payload = wire::encode(
      wire::AbortMessage{why.code(), blamed, options_.rank, self + " reports: " + why.message()});
  abort.header.type = transport::FrameType::kAbort;
  abort.header.comm = comm;
  abort.header.op = op;
  abort.header.length = static_cast<std::uint32_t>(abort.payload.size());
  abort.until = last_tick_ + kSecond;
  record_message(flight::Kind::kAbortSent, channel, comm, op, why.peer(),
                 static_cast<std::uint8_t>(why.code()), "");
  if (channel.endpoint->try_send(abort.header, abort.payload.data()) ==
      transport::SendResult::kWouldBlock) {
    owed_aborts_.push_back(std::move(abort));
  }
}

void Engine::retry_aborts(Nanos now) {
  std::erase_if(owed_aborts_, [now](const OwedAbort& abort) {
    const auto result = abort.channel->endpoint->try_send(abort.header, abort.payload.data());
    return result != transport::SendResult::kWouldBlock || now > abort.until;
  });
}

}  // namespace syncline::exec
