// Engine: what goes into the flight record. Everything but record_enqueued() runs with the baton.
#include <algorithm>

#include "exec/engine.h"
#include "wire/fingerprint.h"

namespace syncline::exec {
namespace {

constexpr Nanos kProgressAgeMax = 10 * kSecond;

}  // namespace

// By callers that find the engine busy, under the lock of the submissions.
void Engine::record_enqueued(const OperationRequest& request) {
  flight_->enqueued(request.group->id, wire::pack(descriptor_of(request)), request.name);
}

void Engine::record_group(Group& group, bool made) {
  if (flight_ == nullptr) return;
  if (!made) return flight_->group_removed(group.flight);
  group.flight = flight_->group_made(group.id, static_cast<std::uint32_t>(group.rank),
                                     static_cast<std::uint32_t>(group.world_ranks.size()));
}

// The entry is written when the operation has to wait for the first time: then it costs nothing,
// and before that it would hold back the first frames. Until then there is the number of the call.
void Engine::record_begin(Operation& operation) {
  flight_->called(operation.group().flight, operation.number());
  ++unrecorded_;
}

void Engine::record_starts() {
  for (const auto& operation : operations_) {
    if (operation->marks().start == 0) record_start(*operation);
  }
}

void Engine::record_start(Operation& operation) {
  operation.marks().start = flight_->started(operation.group().id, operation.number(),
                                             operation.fingerprint(), operation.request().name);
  --unrecorded_;
}

void Engine::record_end(Operation& operation) {
  if (operation.marks().start == 0) record_start(operation);
  const Group& group = operation.group();
  const std::uint64_t start = operation.marks().start;
  const Status& status = operation.status();
  if (status.ok()) {
    return flight_->done(group.flight, group.id, operation.number(), operation.fingerprint(), start,
                         !operation.is_short());
  }
  flight_->failed(group.flight, group.id, operation.number(),
                  {operation.fingerprint(), start, status.peer(), 0},
                  static_cast<std::uint8_t>(status.code()), status.message());
  if (status.code() != Code::kShutdown) flight_->want_dump(flight::Reason::kFailure);
}

// The clock has been read anyway: operations that live longer than a tick get their marks here, and
// those that return within one cost nothing.
void Engine::record_tick(Nanos now) {
  if (flight_ == nullptr) return;
  flight_->clock(now);
  if (unrecorded_ != 0) record_starts();
  for (const auto& operation : operations_) {
    FlightMarks& marks = operation->marks();
    if (marks.moves != marks.moves_seen) {
      marks.moves_seen = marks.moves;
      marks.last = flight_->newest();
      if (marks.first == 0) marks.first = marks.last;
    }
    if (marks.due == 0) {
      marks.age = kMillisecond;
      marks.due = now + marks.age;
    }
    if (now < marks.due) continue;
    marks.due = now + marks.age;
    marks.age = std::min(2 * marks.age, kProgressAgeMax);
    record_waiting(flight::Kind::kProgress, *operation);
  }
}

void Engine::record_waiting(flight::Kind kind, Operation& operation) {
  if (flight_ == nullptr) return;
  const FlightMarks& marks = operation.marks();
  flight::ProgressBody body{marks.start, marks.first, marks.last, 0, {}};
  const Group& group = operation.group();
  for (std::size_t rank = 0; rank < group.peers.size(); ++rank) {
    if (group.peers[rank] == nullptr || !operation.awaits(static_cast<int>(rank))) continue;
    if (body.awaited < body.ranks.size()) {
      body.ranks[body.awaited] = static_cast<std::uint16_t>(group.world_ranks[rank]);
    }
    ++body.awaited;
  }
  flight_->progress(kind, group.id, operation.number(), body);
}

void Engine::record_peer(flight::Kind kind, const Channel& channel, Nanos silent) {
  if (flight_ == nullptr) return;
  flight::PeerBody body;
  body.peer = channel.world_rank;
  body.number = static_cast<std::int32_t>(std::min<Nanos>(silent / kMillisecond, INT32_MAX));
  flight_->peer(kind, 0, 0, body, 0, "");
}

void Engine::record_break(const Group& group, const Status& why, std::uint64_t op) {
  if (flight_ == nullptr || why.code() != Code::kMismatch) return;
  if (group.disputed == transport::Fingerprint{}) return;  // another rank saw it
  flight::PeerBody body;
  body.peer = why.peer();
  body.fingerprint = group.disputed;
  flight_->peer(flight::Kind::kMismatch, group.id, op, body, static_cast<std::uint8_t>(why.code()),
                why.message());
}

void Engine::record_message(flight::Kind kind, const Channel& channel, std::uint32_t comm,
                            std::uint64_t op, int blamed, std::uint8_t code,
                            const std::string& text) {
  if (flight_ == nullptr) return;
  flight::PeerBody body;
  body.peer = channel.world_rank;
  body.number = blamed;
  flight_->peer(kind, comm, op, body, code, text);
}

}  // namespace syncline::exec
