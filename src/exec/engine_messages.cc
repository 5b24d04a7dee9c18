// Engine: sends and receives, and calls that begin together.
#include "exec/engine.h"

namespace syncline::exec {
namespace {

constexpr int kFramesPerPass = 16;

bool is_message(const transport::FrameHeader& header) {
  return header.type == transport::FrameType::kData && (header.flags & wire::kMessageFlag) != 0;
}

}  // namespace

std::shared_ptr<WorkState> Engine::submit(MessageRequest&& request) {
  auto work = std::make_shared<WorkState>(shared_from_this());
  Call call;
  call.message = std::move(request);
  call.work = work;
  submit({&call, 1});
  return work;
}

void Engine::submit(std::span<Call> calls) {
  if (calls.empty()) return;
  const bool several = calls.size() > 1;
  const std::shared_ptr<WorkState> last = calls.back().work;
  {
    MutexLock lock(submit_mutex_);
    for (Call& call : calls) {
      if (call.operation.group != nullptr) {
        pending_.push_back({std::move(call.operation), std::move(call.work)});
      } else {
        pending_messages_.push_back({std::move(call.message), std::move(call.work)});
      }
    }
    has_pending_.store(true, std::memory_order_seq_cst);
  }
  submissions_.store(submissions_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (try_take()) {
    pass();
    give();
  }
  if ((several || !last->done()) && napping_long_.load(std::memory_order_relaxed)) kick();
}

void Engine::begin_message(MessageRequest&& request, std::shared_ptr<WorkState> work) {
  const Nanos deadline = request.timeout > 0 ? last_tick_ + request.timeout : kNever;
  Status refusal;
  const Status& broken = request.group->broken;
  if (stopping_.load(std::memory_order_relaxed)) {
    refusal = Status(Code::kShutdown, "the session has left the job");
  } else if (!broken.ok()) {
    refusal = Status(Code::kFailedPrecondition,
                     "the communicator died earlier; make a new one from session.world()")
                  .with_peer(broken.peer())
                  .caused_by(broken);
  }
  messages_.begin(std::move(request), std::move(work), deadline, refusal);
}

// Several frames of a channel at a time: a long message has many.
bool Engine::move_messages() {
  bool moved = messages_.run();
  for (const auto& channel : channels_) {
    for (int i = 0; i < kFramesPerPass && !channel->lost; ++i) {
      const transport::Frame* frame = channel->front(pass_);
      if (frame == nullptr || !is_message(frame->header)) break;
      take_message(*channel, *frame);
      moved = true;
    }
  }
  return moved;
}

void Engine::take_message(Channel& channel, const transport::Frame& frame) {
  const std::uint32_t comm = frame.header.comm;
  const auto found = groups_.find(comm);
  Group* group = found == groups_.end() ? nullptr : found->second.get();
  const Status status = messages_.take(channel, frame, group, is_dead(comm, group));
  channel.pop();
  if (!status.ok()) lose_channel(channel, status.with_peer(channel.world_rank));
}

bool Engine::is_dead(std::uint32_t comm, const Group* group) const {
  return group == nullptr ? comm <= newest_group_ : !group->broken.ok();
}

}  // namespace syncline::exec
