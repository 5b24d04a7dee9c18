#include "observe/flight_ranks.h"

#include <csignal>
#include <cstring>

#include "wire/fingerprint.h"

namespace syncline::observe {
namespace {

using flight::Kind;
using flight::Record;

Code code_of(std::uint8_t code) {
  return code <= static_cast<std::uint8_t>(Code::kInternal) ? static_cast<Code>(code)
                                                            : Code::kInternal;
}

// Control characters of a hostile file must not reach a terminal.
std::string printable(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

FlightOperation& operation_of(FlightRank& rank, const Record& record) {
  FlightOperation& operation = rank.operations[{record.comm, record.op}];
  operation.comm = record.comm;
  operation.op = record.op;
  return operation;
}

void set_call(FlightOperation& operation, const Record& record) {
  const auto body = flight::from_bytes<flight::CallBody>(record.body);
  operation.fingerprint = body.fingerprint;
  operation.name = printable({body.name.data(), ::strnlen(body.name.data(), body.name.size())});
}

void set_progress(FlightOperation& operation, const Record& record, const FlightDump& dump) {
  const auto body = flight::from_bytes<flight::ProgressBody>(record.body);
  operation.start = dump.mono(body.start);
  if (body.last != 0) operation.moved = dump.mono(body.last);
  operation.awaited = body.awaited;
  operation.awaits.clear();
  for (std::size_t i = 0; i < body.ranks.size() && i < body.awaited; ++i) {
    operation.awaits.push_back(body.ranks[i]);
  }
}

void set_end(FlightOperation& operation, const FlightEvent& event, const FlightDump& dump) {
  const auto body = flight::from_bytes<flight::EndBody>(event.record.body);
  operation.fingerprint = body.fingerprint;
  operation.start = dump.mono(body.start);
  operation.end = dump.mono(event.record.ticks);
  operation.code = event.record.kind == Kind::kDone ? Code::kOk : code_of(event.record.code);
  operation.peer = body.peer;
  operation.text = printable(event.text);
}

void add_event(FlightRank& rank, const FlightEvent& event, const FlightDump& dump) {
  const Record& record = event.record;
  switch (record.kind) {
    case Kind::kEnqueued:
      rank.enqueued.emplace();
      rank.enqueued->comm = record.comm;
      rank.enqueued->start = dump.mono(record.ticks);
      return set_call(*rank.enqueued, record);
    case Kind::kStarted: {
      FlightOperation& operation = operation_of(rank, record);
      operation.start = dump.mono(record.ticks);
      return set_call(operation, record);
    }
    case Kind::kProgress:
    case Kind::kStall:
      return set_progress(operation_of(rank, record), record, dump);
    case Kind::kDone:
    case Kind::kFailed:
      return set_end(operation_of(rank, record), event, dump);
    case Kind::kSuspected:
    case Kind::kBack:
    case Kind::kLost:
    case Kind::kMismatch:
    case Kind::kVerdict:
    case Kind::kAbortSent:
    case Kind::kAbortReceived: {
      const auto body = flight::from_bytes<flight::PeerBody>(record.body);
      rank.peers.push_back(
          {record.kind, body.peer, dump.mono(record.ticks), printable(event.text)});
      return;
    }
    case Kind::kLeft:
      rank.left = true;
      return;
    default:
      return;
  }
}

}  // namespace

std::string FlightOperation::label() const {
  std::string words = op == 0 ? "" : "#" + std::to_string(op) + " ";
  words +=
      fingerprint ? wire::describe(wire::unpack(*fingerprint)) : std::string("(not on record)");
  if (!name.empty()) words += " '" + name + (name.size() == flight::kNameBytes ? "...'" : "'");
  if (comm != 1) words += " of group " + std::to_string(comm);
  return words;
}

std::vector<const FlightOperation*> FlightRank::pending() const {
  std::vector<const FlightOperation*> result;
  for (const auto& [key, operation] : operations) {
    if (operation.end) continue;
    // Its end may be the record that is torn.
    const auto group = groups.find(operation.comm);
    const bool ended = group != groups.end() && operation.op <= group->second.ended;
    if (!ended || dump->torn == 0) result.push_back(&operation);
  }
  return result;
}

const FlightOperation* FlightRank::last_started() const {
  const FlightOperation* last = nullptr;
  for (const auto& [key, operation] : operations) {
    if (operation.start && (last == nullptr || *operation.start >= *last->start)) {
      last = &operation;
    }
  }
  return last;
}

const FlightOperation* FlightRank::last_done() const {
  const FlightOperation* last = nullptr;
  for (const auto& [key, operation] : operations) {
    if (!operation.end || operation.code != Code::kOk) continue;
    if (last == nullptr || *operation.end >= *last->end) last = &operation;
  }
  return last;
}

const FlightOperation* FlightRank::first_failed() const {
  const FlightOperation* first = nullptr;
  for (const auto& [key, operation] : operations) {
    if (operation.code == Code::kOk || operation.code == Code::kShutdown) continue;
    if (first == nullptr || *operation.end < *first->end) first = &operation;
  }
  return first;
}

const FlightOperation* FlightRank::find(std::uint32_t comm, std::uint64_t op) const {
  const auto found = operations.find({comm, op});
  return found == operations.end() ? nullptr : &found->second;
}

bool FlightRank::stopped() const {
  const std::uint32_t state = dump->header.dump.process_state;
  return state == 'T' || state == 't';
}

bool FlightRank::killed() const {
  if (left || dump->header.state == flight::State::kLeft) return false;
  if (dump->writer_gone) return true;
  const int signal = dump->header.dump.signal;
  const bool asked = signal == SIGTERM || signal == SIGINT || signal == SIGHUP;
  const bool own_failure = first_failed() != nullptr;
  return !own_failure && ((signal != 0 && !asked) || dump->header.dump.exit_code > 0);
}

std::string FlightRank::end_text() const {
  const flight::DumpNote& note = dump->header.dump;
  if (note.signal != 0) {
    const char* const name = ::sigabbrev_np(note.signal);
    return name != nullptr ? "killed by SIG" + std::string(name)
                           : "killed by signal " + std::to_string(note.signal);
  }
  if (note.exit_code >= 0) return "exit code " + std::to_string(note.exit_code);
  if (dump->writer_gone) return "its process is gone";
  if (stopped()) return "stopped";
  if (left || dump->header.state == flight::State::kLeft) return "left the job";
  return "";
}

FlightRank summarize(const FlightDump& dump) {
  FlightRank rank;
  rank.dump = &dump;
  rank.rank = dump.header.rank;
  for (const flight::Group& group : dump.header.groups) {
    if (group.state != flight::GroupState::kThere && group.state != flight::GroupState::kRemoved) {
      continue;
    }
    rank.groups[group.id] = {group.id, static_cast<int>(group.size),
                             group.state == flight::GroupState::kRemoved, group.started,
                             group.ended};
  }
  for (const FlightEvent& event : dump.events) add_event(rank, event, dump);
  // The process may have ended before the newest call was put on record.
  for (const auto& [id, group] : rank.groups) {
    if (group.started <= group.ended || rank.find(id, group.started) != nullptr) continue;
    FlightOperation& operation = rank.operations[{id, group.started}];
    operation.comm = id;
    operation.op = group.started;
  }
  return rank;
}

}  // namespace syncline::observe
