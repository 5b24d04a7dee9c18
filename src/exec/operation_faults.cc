// Operation: what happens off the fast path: failures, frames out of order, messages.
#include <algorithm>

#include "base/planted.h"
#include "exec/operation.h"

namespace syncline::exec {
namespace {

constexpr Nanos kInquiryDelay = 250 * kMillisecond;
constexpr Nanos kInquiryInterval = kSecond;
constexpr int kStallRepeat = 6;

}  // namespace

void Operation::fail(const Status& status) {
  if (status_.ok()) status_ = status.with_operation(label());
}

bool Operation::check_fingerprint(int group_rank, const transport::FrameHeader& header) {
  if (SYNCLINE_PLANTED(fingerprint_ignored)) return true;
  if (!header.has_fingerprint || transport::same(header.fingerprint, header_.fingerprint))
    return true;
  const transport::Fingerprint expected = expected_fingerprint(group_rank, header.step);
  if (header.fingerprint == expected) return true;
  const auto index = static_cast<std::size_t>(group_rank);
  const int theirs = request_.group->world_ranks[index];
  const int ours = request_.group->world_ranks[static_cast<std::size_t>(request_.group->rank)];
  request_.group->disputed = header.fingerprint;
  fail(Status(Code::kMismatch,
              "ranks disagree on operation #" + std::to_string(number_) + ": " +
                  wire::describe_mismatch(ours, wire::unpack(expected), theirs,
                                          wire::unpack(header.fingerprint)) +
                  (has_unequal_blocks() ? "; make both ends of a block give it the same count, and "
                                          "all ranks call the same collectives in the same order"
                                        : "; make all ranks call the same collectives in the same "
                                          "order"))
           .with_peer(theirs));
  return false;
}

Operation::Location Operation::locate_in_blocks(const Place& place, const Instance& instance,
                                                const Extent& extent) const {
  Location location = locate_plain(place, instance, extent);
  if (place.buf == plan::Buf::kIn) {
    location.data += request_.blocks->in_block(place.chunk).begin * element_bytes_;
  } else if (place.buf == plan::Buf::kOut ||
             (place.buf == plan::Buf::kAcc && in_out_storage(place.chunk))) {
    location.data += request_.blocks->out_block(place.chunk).begin * element_bytes_;
  }
  return location;
}

bool Operation::send_block(const CompiledStep& step, Channel& channel,
                           const std::byte* source) const {
  transport::FrameHeader header = header_;
  if (header.has_fingerprint) header.fingerprint = block_fingerprint(step.a.chunk);
  return channel.endpoint->try_send(header, source) == transport::SendResult::kAccepted;
}

bool Operation::skips(const CompiledStep& step, const Instance& instance) const {
  const Place& place = step.kind == plan::StepKind::kSend ? step.a : step.dst;
  return layout_.is_past(place.chunk, instance.segment);
}

transport::Fingerprint Operation::block_fingerprint(std::uint32_t chunk) const {
  wire::Operation what = descriptor();
  what.count = request_.blocks->count(chunk);
  return wire::pack(what);
}

transport::Fingerprint Operation::expected_fingerprint(int group_rank, std::uint32_t tag) const {
  if (!has_unequal_blocks()) return header_.fingerprint;
  for (const CompiledStep& step : program_->steps) {
    const bool receives =
        step.kind == plan::StepKind::kRecv || step.kind == plan::StepKind::kRecvReduce;
    if (receives && step.peer == group_rank && step.tag == tag) {
      return block_fingerprint(step.dst.chunk);
    }
  }
  return header_.fingerprint;
}

const CompiledStep* Operation::waiting_step(const Instance& instance, std::size_t lane) const {
  const std::uint32_t counter = instance.counters[lane];
  if (instance.lanes_left == 0 || counter >= program_->lanes[lane].end) return nullptr;
  const CompiledStep& step = program_->steps[counter];
  const bool receives =
      step.kind == plan::StepKind::kRecv || step.kind == plan::StepKind::kRecvReduce;
  return receives && ready(step, instance) ? &step : nullptr;
}

bool Operation::spill(int group_rank, const transport::Frame& frame) {
  for (std::uint32_t segment = oldest_; segment < next_; ++segment) {
    const Instance& instance = at(segment);
    if (instance.segment != frame.header.segment) continue;
    for (std::size_t lane = 0; lane < program_->lanes.size(); ++lane) {
      const CompiledStep* step = waiting_step(instance, lane);
      if (step != nullptr && step->peer == group_rank && step->tag == frame.header.step)
        return false;
    }
  }
  adopt(group_rank, frame.header, {frame.payload, frame.payload + frame.header.length});
  return true;
}

void Operation::adopt(int group_rank, const transport::FrameHeader& header,
                      std::vector<std::byte> payload) {
  if (!check_fingerprint(group_rank, header)) return;
  spilled_.push_back({group_rank, header.step, header.segment, std::move(payload)});
}

bool Operation::inquiry_due(Nanos now) {
  if (inquire_at_ == 0) inquire_at_ = now + kInquiryDelay;
  if (now < inquire_at_ || inquiries_left_ == 0) return false;
  inquire_at_ = now + kInquiryInterval;
  --inquiries_left_;
  return true;
}

bool Operation::stall_due(Nanos now, Nanos stall) {
  if (stall_at_ == 0) {
    still_since_ = now;
    stall_at_ = now + stall;
    verdict_.clear();
    late_rank_ = -1;
  }
  if (now < stall_at_) return false;
  stall_at_ = now + kStallRepeat * stall;
  verdict_is_old_ = true;
  return true;
}

void Operation::add_verdict(const std::string& text, int late) {
  if (verdict_is_old_) {
    verdict_.clear();
    late_rank_ = -1;
  }
  verdict_is_old_ = false;
  verdict_ += " (" + text + ")";
  if (late_rank_ < 0) late_rank_ = late;
}

transport::FrameHeader Operation::inquiry() const {
  transport::FrameHeader header = header_;
  header.type = transport::FrameType::kNotify;
  header.step = 0;
  header.segment = 0;
  header.length = 0;
  header.has_fingerprint = true;
  return header;
}

std::string Operation::label() const {
  std::string text = to_string(program_->kind);
  text += " #" + std::to_string(number_);
  if (!request_.name.empty()) text += " '" + request_.name + "'";
  if (request_.group->id != 1) text += " (group " + std::to_string(request_.group->id) + ")";
  return text;
}

bool Operation::awaits(int group_rank) const {
  for (std::uint32_t segment = oldest_; segment < next_; ++segment) {
    const Instance& instance = instances_[segment % window_];
    for (std::size_t lane = 0; lane < program_->lanes.size(); ++lane) {
      const CompiledStep* step = waiting_step(instance, lane);
      if (step != nullptr && step->peer == group_rank) return true;
    }
  }
  return false;
}

bool Operation::stuck_on(int group_rank) const {
  for (std::uint32_t segment = oldest_; segment < next_; ++segment) {
    const Instance& instance = instances_[segment % window_];
    if (instance.lanes_left == 0) continue;
    for (std::size_t lane = 0; lane < program_->lanes.size(); ++lane) {
      if (instance.counters[lane] >= program_->lanes[lane].end) continue;
      const CompiledStep& step = program_->steps[instance.counters[lane]];
      if (step.peer != group_rank || !ready(step, instance)) continue;
      const bool waits_in_memory =
          std::any_of(spilled_.begin(), spilled_.end(), [&](const Spilled& frame) {
            return frame.group_rank == group_rank && frame.step == step.tag &&
                   frame.segment == instance.segment;
          });
      if (step.kind == plan::StepKind::kSend || !waits_in_memory) return true;
    }
  }
  return false;
}

std::string Operation::awaiting() const {
  std::string text;
  for (std::size_t rank = 0; rank < request_.group->peers.size(); ++rank) {
    if (request_.group->peers[rank] == nullptr || !awaits(static_cast<int>(rank))) continue;
    if (!text.empty()) text += ", ";
    text += request_.group->peers[rank]->peer;
  }
  return text.empty() ? "room to send" : text;
}

}  // namespace syncline::exec
