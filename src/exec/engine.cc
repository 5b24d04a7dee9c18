#include "exec/engine.h"

#include <algorithm>
#include <tuple>

#include "base/assert.h"

namespace syncline::exec {
namespace {
constexpr std::size_t kSpareMax = 64;
constexpr int kPassesOfAStep = 128;
constexpr std::size_t kOldest = 8;                // long operations with a turn in every pass
constexpr std::uint64_t kPassesOfTheOldest = 16;  // then all have one
// About as long as a peer in step takes to send; each costs some tens of ns.
constexpr int kPassesOfACall = 16;
}  // namespace

Engine::Engine(EngineOptions options) : options_(std::move(options)) {}

Engine::~Engine() {
  SYNCLINE_ASSERT(!thread_.joinable(), "stop() the engine before destroying it");
}

Channel* Engine::add_channel(int world_rank, std::string peer,
                             std::unique_ptr<transport::Endpoint> endpoint) {
  auto channel = std::make_unique<Channel>();
  channel->world_rank = world_rank;
  channel->peer = std::move(peer);
  channel->endpoint = std::move(endpoint);
  all_far_ = channel->endpoint->is_far() && (all_far_ || channels_.empty());
  channels_.push_back(std::move(channel));
  return channels_.back().get();
}

void Engine::start() {
  last_tick_ = now();
  if (options_.stepped_by != nullptr) return;
  thread_ = event::NamedThread("syncline-prog", [this] { progress_loop(); });
}

bool Engine::step() {
  SYNCLINE_ASSERT(options_.stepped_by != nullptr && try_take(), "one thread steps an engine");
  bool moved = false;
  for (int i = 0; i < kPassesOfAStep && pass(); ++i) moved = true;
  const Nanos now = this->now();
  if (now - last_tick_ >= kMillisecond) tick(now);
  give();
  return moved;
}

void Engine::add_group(std::shared_ptr<Group> group) {
  while (!try_take()) changed_.wait(changed_.prepare(), kMillisecond);
  const std::uint32_t id = group->id;
  const auto abort = early_aborts_.find(id);
  if (abort != early_aborts_.end()) {
    std::tie(group->broken, group->broken_op) = abort->second;
    early_aborts_.erase(abort);
  }
  record_group(*group, true);
  newest_group_ = std::max(newest_group_, id);
  groups_[id] = std::move(group);
  give();
}

void Engine::remove_group(const std::shared_ptr<Group>& group) {
  while (!try_take()) changed_.wait(changed_.prepare(), kMillisecond);
  pass();  // what was submitted last may wait to be admitted
  removed_groups_.push_back(group);
  reap_groups();
  give();
}

// Lets go of removed groups whose operations and messages have ended, and of what came for them.
void Engine::reap_groups() {
  std::erase_if(removed_groups_, [this](const std::shared_ptr<Group>& group) {
    if (group->operations != 0 || messages_.uses(*group)) return false;
    messages_.end_group(*group, {});
    const auto first = early_.lower_bound({group->id, 0});
    const auto last = early_.upper_bound({group->id, ~std::uint64_t{0}});
    for (auto frames = first; frames != last; ++frames) {
      for (const EarlyFrame& frame : frames->second) early_bytes_ -= frame.payload.size();
    }
    early_.erase(first, last);
    record_group(*group, false);
    groups_.erase(group->id);
    return true;
  });
}

Status Engine::group_status(const Group& group) {
  while (!try_take()) changed_.wait(changed_.prepare(), kMillisecond);
  Status status = group.broken;
  give();
  return status;
}

bool Engine::try_take() {
  return !baton_.load(std::memory_order_relaxed) &&
         !baton_.exchange(true, std::memory_order_acquire);
}

// An operation may have been queued after the last look while its caller could not take the baton.
void Engine::give() {
  for (;;) {
    WorkState::Completions completions;
    if (!completions_.empty()) completions.swap(completions_);
    running_.store(static_cast<std::uint32_t>(operations_.size()), std::memory_order_relaxed);
    baton_.store(false, std::memory_order_seq_cst);
    changed_.notify();
    for (const auto& completion : completions) completion();
    if (!has_pending_.load(std::memory_order_seq_cst) || !try_take()) return;
    pass();
  }
}

Work Engine::submit(OperationRequest&& request) {
  submissions_.store(submissions_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (try_take()) return begin_here(std::move(request));
  auto work = std::make_shared<WorkState>(shared_from_this());
  const bool background = request.background;
  {
    MutexLock lock(submit_mutex_);
    if (flight_ != nullptr) record_enqueued(request);
    pending_.push_back({std::move(request), work});
    has_pending_.store(true, std::memory_order_seq_cst);
  }
  if (try_take()) {
    pass();
    give();
  }
  // A caller that waits at once needs no help: the progress thread only shortens its nap.
  if (!work->done() && (background || napping_long_.load(std::memory_order_relaxed))) kick();
  return Work(std::move(work));
}

// Entered with the baton, which it gives back.
Work Engine::begin_here(OperationRequest&& request) {
  admit_pending();  // earlier calls of this thread may be among them
  const bool background = request.background;
  outcome_.ended = false;
  Operation& operation = begin(std::move(request), nullptr);
  const bool stays = operation.is_small() && !background && !crowded_ && !all_far_;
  pass_until_ended(stays && options_.stepped_by == nullptr ? kPassesOfACall : 1);
  if (outcome_.ended && outcome_.status.ok()) {
    give();
    return Work();
  }
  auto work = std::make_shared<WorkState>(shared_from_this());
  if (outcome_.ended) {
    work->complete(std::exchange(outcome_.status, {}));
  } else {
    operation.set_work(work);
  }
  give();
  if (!work->done() && (background || napping_long_.load(std::memory_order_relaxed))) kick();
  return Work(std::move(work));
}

void Engine::pass_until_ended(int passes) {
  do {
    pass();
  } while (!outcome_.ended && --passes > 0);
}

void Engine::admit_pending() {
  if (!has_pending_.load(std::memory_order_acquire)) return;
  {
    MutexLock lock(submit_mutex_);
    admitted_.swap(pending_);
    admitted_messages_.swap(pending_messages_);
    has_pending_.store(false, std::memory_order_relaxed);
  }
  for (PendingMessage& pending : admitted_messages_) {
    begin_message(std::move(pending.request), std::move(pending.work));
  }
  admitted_messages_.clear();
  for (Pending& pending : admitted_) {
    begin(std::move(pending.request), std::move(pending.work));
  }
  admitted_.clear();
}

Operation& Engine::begin(OperationRequest&& request, std::shared_ptr<WorkState> work) {
  std::unique_ptr<Operation> operation;
  if (spare_.empty()) {
    operation = std::make_unique<Operation>();
  } else {
    operation = std::move(spare_.back());
    spare_.pop_back();
  }
  // The newest tick is at most 100 ms old: exact enough for a deadline, and free.
  const Nanos deadline = request.timeout > 0 ? last_tick_ + request.timeout : kNever;
  Group& group = *request.group;
  const std::uint64_t number = group.next_op++;
  operation->start(std::move(request), number, std::move(work), deadline);
  ++group.operations;
  group.admitted_op = number;
  group.called[number % group.called.size()] = operation->fingerprint();
  if (flight_ != nullptr) record_begin(*operation);
  const auto early = early_.empty() ? early_.end() : early_.find({group.id, number});
  if (early != early_.end()) {
    for (EarlyFrame& frame : early->second) {
      early_bytes_ -= frame.payload.size();
      operation->adopt(group_rank_of(group, *frame.channel), frame.header,
                       std::move(frame.payload));
    }
    early_.erase(early);
  }
  if (stopping_.load(std::memory_order_relaxed)) {
    operation->fail(Status(Code::kShutdown, "the session has left the job"));
  } else if (!group.broken.ok() && number <= group.broken_op) {
    operation->fail(group.broken);
  } else if (!group.broken.ok()) {
    operation->fail(Status(Code::kFailedPrecondition,
                           "the communicator died earlier; make a new one from session.world()")
                        .with_peer(group.broken.peer())
                        .caused_by(group.broken));
  }
  operations_.push_back(std::move(operation));
  return *operations_.back();
}

bool Engine::pass() {
  ++pass_;
  admit_pending();
  bool moved = false;
  // All ranks work on the oldest of the long operations: as long as those move, the other long ones
  // have their turn only now and then.
  std::size_t turns = pass_ % kPassesOfTheOldest == 0 ? SIZE_MAX : kOldest;
  for (std::size_t i = 0; i < operations_.size();) {
    Operation& operation = *operations_[i];
    if (!operation.is_short()) {
      if (turns == 0 && moved) {
        ++i;
        continue;
      }
      if (turns > 0) --turns;
    }
    if (operation.status().ok() && operation.run(pass_)) moved = true;
    if (!operation.status().ok()) {
      moved = true;
      fail_operation(operation);
      i = 0;  // the whole group may have ended
    } else if (operation.done()) {
      moved = true;
      finish(i);
    } else {
      ++i;
    }
  }
  if (!messages_.idle() && move_messages()) moved = true;
  if (moved) {
    idle_passes_ = 0;
    return true;
  }
  ++idle_passes_;
  if (unrecorded_ != 0) record_starts();
  return look_at_fronts();
}

void Engine::finish(std::size_t index) {
  std::unique_ptr<Operation> operation = std::move(operations_[index]);
  operations_.erase(operations_.begin() + static_cast<std::ptrdiff_t>(index));
  if (flight_ != nullptr) record_end(*operation);
  Group& group = operation->group();
  --group.operations;
  group.last_name.swap(operation->request().name);
  group.last_ended = last_tick_;
  if (operation->work() != nullptr) {
    operation->work()->complete(operation->status(), completions_);
  } else {
    outcome_ = {true, operation->status()};
  }
  operation->clear();
  if (spare_.size() < kSpareMax) spare_.push_back(std::move(operation));
}

Operation* Engine::find_operation(std::uint32_t comm, std::uint64_t op) const {
  for (const auto& operation : operations_) {
    if (operation->number() == op && operation->group().id == comm) return operation.get();
  }
  return nullptr;
}

int Engine::group_rank_of(const Group& group, const Channel& channel) {
  const auto found = std::find(group.peers.begin(), group.peers.end(), &channel);
  return found == group.peers.end() ? -1 : static_cast<int>(found - group.peers.begin());
}

void Engine::log(const std::string& line) const {
  if (options_.log) options_.log(line);
}

}  // namespace syncline::exec
