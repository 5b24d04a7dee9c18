#include "exec/operation.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "base/planted.h"
#include "base/ticks.h"
#include "kernels/reduce.h"

namespace syncline::exec {
namespace {

using plan::Buf;
using plan::StepKind;
using transport::Frame;

constexpr std::size_t kScratchAlign = 64;
constexpr std::size_t kScratchKeptBytes = 4 << 20;

std::size_t round_up(std::size_t bytes) {
  return (bytes + kScratchAlign - 1) / kScratchAlign * kScratchAlign;
}

// Spreads small numbers over a byte.
std::uint8_t folded(std::uint32_t number) {
  return static_cast<std::uint8_t>(number * 0x9e3779b1u >> 24);
}

}  // namespace

void Operation::start(OperationRequest&& request, std::uint64_t number,
                      std::shared_ptr<WorkState> work, Nanos deadline) {
  const bool prepared = is_prepared_for(request);
  request_ = std::move(request);
  program_ = request_.program;
  number_ = number;
  work_ = std::move(work);
  deadline_ = deadline;
  inquire_at_ = 0;
  inquiries_left_ = kInquiriesMax;
  stall_at_ = 0;
  verdict_.clear();
  late_rank_ = -1;
  marks_ = {};
  oldest_ = 0;
  next_ = 0;
  if (!prepared) prepare();
  header_.comm = request_.group->id;
  header_.op = number_;
  start_instances();
}

// The same call often comes again; a small one spent a tenth of its instructions on this.
bool Operation::is_prepared_for(const OperationRequest& request) const {
  return request.program->serial == prepared_for_ && request.block_count == request_.block_count &&
         request.type == request_.type && request.op == request_.op &&
         request.segments == request_.segments && request.window == request_.window &&
         request.root == request_.root && request.reproducible == request_.reproducible &&
         request.name.empty() && request.blocks == nullptr;
}

void Operation::prepare() {
  layout_ = request_.blocks != nullptr ? Layout(*request_.blocks)
                                       : Layout(request_.block_count, program_->blocks,
                                                program_->chunks, request_.segments);
  element_bytes_ = size_of(request_.type);
  const DType accumulate = kernels::accumulate_type(request_.type);
  accumulator_bytes_ = size_of(accumulate);
  acc_is_element_ = accumulate == request_.type;
  const std::size_t own_block = request_.block_count * static_cast<std::size_t>(program_->rank);
  const Collective kind = program_->kind;
  const bool own_in = kind == Collective::kAllGather || kind == Collective::kGather;
  const bool own_out = kind == Collective::kReduceScatter || kind == Collective::kScatter;
  in_origin_ = own_in && request_.blocks == nullptr ? own_block : 0;
  out_origin_ = own_out && request_.blocks == nullptr ? own_block : 0;
  header_.type = transport::FrameType::kData;
  header_.fingerprint = wire::pack(descriptor());
  prepare_instances();
  const bool keeps = request_.name.empty() && request_.blocks == nullptr;
  prepared_for_ = keeps ? program_->serial : 0;
}

void Operation::prepare_instances() {
  const std::size_t lanes = program_->lanes.size();
  const std::size_t slots = program_->accumulators + program_->scratch_slots;
  window_ = std::min(request_.window, layout_.segments());
  slot_bytes_ = round_up(layout_.segment_count_max() * accumulator_bytes_);
  if (instances_.size() < window_) instances_.resize(window_);
  if (counters_.size() < window_ * lanes) counters_.resize(window_ * lanes);
  const std::size_t bytes = slots == 0 ? 0 : window_ * slots * slot_bytes_ + kScratchAlign;
  if (scratch_bytes_ < bytes) {
    scratch_.reset(new std::byte[bytes]);
    scratch_bytes_ = bytes;
  }
  auto* aligned =
      reinterpret_cast<std::byte*>(round_up(reinterpret_cast<std::uintptr_t>(scratch_.get())));
  for (std::size_t i = 0; i < window_; ++i) {
    instances_[i].scratch = aligned + i * slots * slot_bytes_;
    instances_[i].counters = counters_.data() + i * lanes;
  }
}

void Operation::clear() {
  request_.group = nullptr;
  request_.program = nullptr;
  request_.name.clear();
  request_.blocks = nullptr;
  program_ = nullptr;
  work_ = nullptr;
  status_ = {};
  spilled_.clear();
  if (scratch_bytes_ > kScratchKeptBytes) {
    scratch_ = nullptr;
    scratch_bytes_ = 0;
    prepared_for_ = 0;
  }
}

wire::Operation descriptor_of(const OperationRequest& request) {
  wire::Operation what;
  what.kind = request.program->kind;
  what.dtype = request.type;
  what.op = request.op;
  what.schedule_hash = static_cast<std::uint8_t>(request.program->hash ^ folded(request.segments));
  what.reproducible = request.reproducible;
  what.root = request.root < 0 ? wire::kNoRoot : static_cast<std::uint16_t>(request.root);
  what.name_hash = wire::hash16(request.name);
  what.count = request.block_count;
  if (request.blocks != nullptr && request.blocks->unequal) {
    what.unequal = true;
    what.count = wire::kVariousCounts;
  }
  return what;
}

void Operation::start_instances() {
  while (next_ < layout_.segments() && next_ < oldest_ + window_) {
    Instance& instance = at(next_);
    instance.segment = next_++;
    instance.lanes_left = static_cast<std::uint32_t>(program_->lanes.size());
    for (std::size_t lane = 0; lane < program_->lanes.size(); ++lane) {
      const CompiledLane& bounds = program_->lanes[lane];
      instance.counters[lane] = bounds.begin;
      if (bounds.begin == bounds.end) --instance.lanes_left;
    }
  }
}

bool Operation::run(std::uint64_t pass) {
  pass_ = pass;
  bool moved = false;
  for (std::uint32_t segment = oldest_; segment < next_; ++segment) {
    Instance& instance = at(segment);
    if (instance.lanes_left != 0 && run_instance(instance)) moved = true;
    if (!status_.ok()) return true;
  }
  while (oldest_ < next_ && at(oldest_).lanes_left == 0) ++oldest_;
  if (next_ < layout_.segments()) start_instances();
  if (moved) {
    stall_at_ = 0;
    ++marks_.moves;
  }
  return moved;
}

bool Operation::run_instance(Instance& instance) {
  bool moved = false;
  for (std::size_t lane = 0; lane < program_->lanes.size(); ++lane) {
    std::uint32_t& counter = instance.counters[lane];
    const std::uint32_t end = program_->lanes[lane].end;
    while (counter < end && execute(program_->steps[counter], instance)) {
      moved = true;
      if (++counter == end) --instance.lanes_left;
    }
    if (!status_.ok()) return true;
  }
  return moved;
}

bool Operation::ready(const CompiledStep& step, const Instance& instance) const {
  if (SYNCLINE_PLANTED(order_ignored)) return true;
  for (std::uint16_t i = step.after_begin; i < step.after_end; ++i) {
    const plan::After& after = program_->after[i];
    if (instance.counters[after.lane] <= program_->lanes[after.lane].begin + after.step)
      return false;
  }
  return true;
}

bool Operation::execute(const CompiledStep& step, Instance& instance) {
  if (request_.blocks != nullptr && skips(step, instance)) [[unlikely]]
    return true;
  if (step.after_begin != step.after_end && !ready(step, instance)) return false;
  switch (step.kind) {
    case StepKind::kSend:
      return execute_send(step, instance);
    case StepKind::kRecv:
    case StepKind::kRecvReduce:
      return execute_receive(step, instance);
    case StepKind::kCopy: {
      const Extent extent = layout_.extent(step.dst.chunk, instance.segment);
      copy(locate(step.dst, instance, extent), locate(step.a, instance, extent), extent.count,
           step.finish);
      return true;
    }
    case StepKind::kReduce: {
      const Extent extent = layout_.extent(step.dst.chunk, instance.segment);
      const Location dst = locate(step.dst, instance, extent);
      const Location a = locate(step.a, instance, extent);
      const Location b = locate(step.b, instance, extent);
      kernels::reduce(request_.type, request_.op, {dst.data, dst.accumulator},
                      {a.data, a.accumulator}, {b.data, b.accumulator}, extent.count,
                      step.finish ? request_.divisor : 0);
      return true;
    }
  }
  return false;
}

bool Operation::execute_send(const CompiledStep& step, Instance& instance) {
  const Extent extent = layout_.extent(step.a.chunk, instance.segment);
  const Location source = locate(step.a, instance, extent);
  header_.step = step.tag;
  header_.segment = instance.segment;
  header_.length = static_cast<std::uint32_t>(
      extent.count * (step.wire == plan::Wire::kAccumulator ? accumulator_bytes_ : element_bytes_));
  header_.has_fingerprint = instance.segment == 0;
  Channel& channel = *request_.group->peers[static_cast<std::size_t>(step.peer)];
  if (has_unequal_blocks()) [[unlikely]]
    return send_block(step, channel, source.data);
  switch (channel.try_send(header_, source.data, pass_)) {
    case transport::SendResult::kAccepted:
      return true;
    case transport::SendResult::kWouldBlock:
      return false;
    case transport::SendResult::kClosed:
      break;  // the engine sees the endpoint's status and fails the group
  }
  return false;
}

bool Operation::find_payload(const CompiledStep& step, const Instance& instance, Payload& payload) {
  Channel& channel = *request_.group->peers[static_cast<std::size_t>(step.peer)];
  const Frame* frame = channel.front(pass_);
  if (frame != nullptr && frame->header.op == number_ && frame->header.step == step.tag &&
      (frame->header.segment == instance.segment || SYNCLINE_PLANTED(any_segment)) &&
      frame->header.comm == header_.comm && frame->header.type == transport::FrameType::kData) {
    if (!check_fingerprint(step.peer, frame->header)) return false;
    payload = {frame->payload, frame->header.length, SIZE_MAX};
    return true;
  }
  for (std::size_t i = 0; i < spilled_.size(); ++i) {
    const Spilled& spilled = spilled_[i];
    if (spilled.group_rank == step.peer && spilled.step == step.tag &&
        spilled.segment == instance.segment) {
      payload = {spilled.payload.data(), spilled.payload.size(), i};
      return true;
    }
  }
  return false;
}

void Operation::release(const CompiledStep& step, const Payload& payload) {
  if (payload.spilled == SIZE_MAX) {
    request_.group->peers[static_cast<std::size_t>(step.peer)]->pop();
    return;
  }
  spilled_[payload.spilled] = std::move(spilled_.back());
  spilled_.pop_back();
}

bool Operation::execute_receive(const CompiledStep& step, Instance& instance) {
  Payload payload;
  if (!find_payload(step, instance, payload)) return false;
  const Extent extent = layout_.extent(step.dst.chunk, instance.segment);
  const bool wide = step.wire == plan::Wire::kAccumulator;
  const std::size_t expected = extent.count * (wide ? accumulator_bytes_ : element_bytes_);
  if (payload.bytes != expected) {
    const int world_rank = request_.group->world_ranks[static_cast<std::size_t>(step.peer)];
    fail(Status(Code::kMismatch, "rank " + std::to_string(world_rank) + " sent " +
                                     std::to_string(payload.bytes) + " bytes where " +
                                     std::to_string(expected) + " were expected; " +
                                     "call with equal counts and types on all ranks")
             .with_peer(world_rank));
    return false;
  }
  const Location dst = locate(step.dst, instance, extent);
  const Location incoming{const_cast<std::byte*>(payload.data), wide};
  const bool timed = payload.spilled == SIZE_MAX && payload.bytes >= transport::kTimedBytesMin;
  const std::uint64_t begin = timed ? ticks_now() : 0;
  if (step.kind == StepKind::kRecv) {
    copy(dst, incoming, extent.count, step.finish);
  } else {
    const Location a = locate(step.a, instance, extent);
    kernels::reduce(request_.type, request_.op, {dst.data, dst.accumulator},
                    {a.data, a.accumulator}, {incoming.data, incoming.accumulator}, extent.count,
                    step.finish ? request_.divisor : 0);
    if (SYNCLINE_PLANTED(added_twice) && payload.spilled != SIZE_MAX) {
      kernels::reduce(request_.type, request_.op, {dst.data, dst.accumulator},
                      {dst.data, dst.accumulator}, {incoming.data, incoming.accumulator},
                      extent.count, 0);
    }
  }
  if (timed) {
    Channel& channel = *request_.group->peers[static_cast<std::size_t>(step.peer)];
    channel.endpoint->note_read(ticks_now() - begin);
  }
  release(step, payload);
  return true;
}

bool Operation::in_out_storage(std::uint16_t chunk) const {
  if (!acc_is_element_ || !program_->receives || request_.out == nullptr) return false;
  if (program_->kind != Collective::kReduceScatter) return true;
  const std::uint32_t per_block = program_->chunks / program_->blocks;
  return chunk / per_block == static_cast<std::uint32_t>(program_->rank);
}

Operation::Location Operation::locate(const Place& place, const Instance& instance,
                                      const Extent& extent) const {
  if (request_.blocks != nullptr) [[unlikely]] {
    return locate_in_blocks(place, instance, extent);
  }
  return locate_plain(place, instance, extent);
}

Operation::Location Operation::locate_plain(const Place& place, const Instance& instance,
                                            const Extent& extent) const {
  switch (place.buf) {
    case Buf::kIn: {
      auto* in = static_cast<std::byte*>(const_cast<void*>(request_.in));
      if (SYNCLINE_PLANTED(input_overwritten) && request_.out != nullptr) in[3] = std::byte{1};
      return {in + (extent.begin - in_origin_) * element_bytes_, false};
    }
    case Buf::kAcc:
      if (!in_out_storage(place.chunk)) break;
      [[fallthrough]];
    case Buf::kOut: {
      auto* out = static_cast<std::byte*>(request_.out);
      return {out + (extent.begin - out_origin_) * element_bytes_, false};
    }
    case Buf::kScratch:
      break;
  }
  const std::size_t slot =
      place.buf == Buf::kAcc ? place.slot : program_->accumulators + place.slot;
  return {instance.scratch + slot * slot_bytes_, true};
}

void Operation::copy(Location dst, Location src, std::size_t count, bool finish) const {
  const bool average = finish && request_.divisor > 0;
  const bool same_width = acc_is_element_ || dst.accumulator == src.accumulator;
  if (!average && same_width) {
    const std::size_t bytes = count * (dst.accumulator ? accumulator_bytes_ : element_bytes_);
    if (dst.data != src.data && bytes != 0) std::memcpy(dst.data, src.data, bytes);
    return;
  }
  kernels::copy(request_.type, {dst.data, dst.accumulator}, {src.data, src.accumulator}, count,
                average ? request_.divisor : 0);
}

}  // namespace syncline::exec
