#include "observe/flight_verdict.h"

#include <algorithm>
#include <set>

#include "wire/fingerprint.h"

namespace syncline::observe {
namespace {

using flight::Kind;

constexpr std::size_t kEvidenceMax = 6;
constexpr Nanos kWorthAWord = kSecond;              // shorter waits are everyday life
constexpr Nanos kNewsTravels = 200 * kMillisecond;  // from a death to the failure at the peers

std::string ago(Nanos span) { return seconds_text(std::max<Nanos>(span, 0)); }

void add_evidence(FlightVerdict& verdict, std::string text) {
  if (verdict.evidence.size() < kEvidenceMax) verdict.evidence.push_back(std::move(text));
}

std::string last_call_text(const FlightRank& rank) {
  const FlightOperation* const last = rank.last_started();
  if (last == nullptr) return "it has called nothing";
  std::string text = "its last call was " + last->label();
  if (!last->end) return text + ", which has not ended";
  return text + ", which ended " + ago(rank.dump->taken() - *last->end) + " before the record";
}

// The rank whose process died first, unless the others had failed before that.
bool judge_killed(const std::vector<FlightRank>& ranks, FlightVerdict& verdict) {
  const FlightRank* first = nullptr;
  const auto last_sign = [](const FlightRank& rank) {
    return rank.dump->wall(
        static_cast<Nanos>(rank.dump->header.clocks[rank.dump->header.newest & 1].mono));
  };
  for (const FlightRank& rank : ranks) {
    if (rank.killed() && (first == nullptr || last_sign(rank) < last_sign(*first))) first = &rank;
  }
  if (first == nullptr) return false;
  for (const FlightRank& rank : ranks) {
    const FlightOperation* const failed = rank.first_failed();
    const bool before =
        failed != nullptr && rank.dump->wall(*failed->end) + kNewsTravels < last_sign(*first);
    if (before) return false;
  }
  verdict.cause = "killed";
  verdict.culprits = {first->rank};
  const auto pending = first->pending();
  verdict.text = "rank " + std::to_string(first->rank) + " died (" + first->end_text() + ") " +
                 (pending.empty() ? "between operations; " + last_call_text(*first)
                                  : "in " + pending.front()->label());
  verdict.advice = first->dump->header.dump.signal == 9
                       ? "look for the out-of-memory killer (dmesg) and at who else kills it"
                       : "look at that rank's own last messages";
  return true;
}

using Calls = std::map<flight::FingerprintBytes, std::vector<int>>;

// Who called what as operation `op` of the group, as far as it is recorded.
Calls calls_of(const std::vector<FlightRank>& ranks, std::uint32_t comm, std::uint64_t op) {
  Calls calls;
  for (const FlightRank& rank : ranks) {
    const FlightOperation* const operation = rank.find(comm, op);
    if (operation != nullptr && operation->fingerprint) {
      calls[*operation->fingerprint].push_back(rank.rank);
    }
  }
  return calls;
}

bool judge_mismatch(const std::vector<FlightRank>& ranks, FlightVerdict& verdict) {
  std::set<std::pair<std::uint32_t, std::uint64_t>> keys;
  for (const FlightRank& rank : ranks) {
    for (const auto& [key, operation] : rank.operations) keys.insert(key);
  }
  for (const auto& [comm, op] : keys) {
    const Calls calls = calls_of(ranks, comm, op);
    if (calls.size() < 2) continue;
    const auto by_votes = [](const auto& a, const auto& b) {
      return a.second.size() < b.second.size();
    };
    const auto most = std::max_element(calls.begin(), calls.end(), by_votes);
    const auto votes = static_cast<std::ptrdiff_t>(most->second.size());
    const bool tie = std::count_if(calls.begin(), calls.end(), [votes](const auto& call) {
                       return std::ssize(call.second) == votes;
                     }) > 1;
    verdict.cause = "mismatch";
    verdict.text =
        "ranks disagree on operation #" + std::to_string(op) + " of group " + std::to_string(comm);
    for (const auto& [what, who] : calls) {
      add_evidence(verdict, ranks_text(who) + " called " + wire::describe(wire::unpack(what)));
      const bool majority = who.size() == most->second.size();
      if (majority && !tie) continue;
      verdict.culprits.insert(verdict.culprits.end(), who.begin(), who.end());
    }
    std::sort(verdict.culprits.begin(), verdict.culprits.end());
    verdict.advice = "make all ranks call the same collectives in the same order";
    return true;
  }
  return false;
}

bool judge_stopped(const std::vector<FlightRank>& ranks, FlightVerdict& verdict) {
  for (const FlightRank& rank : ranks) {
    if (!rank.stopped()) continue;
    verdict.culprits.push_back(rank.rank);
    add_evidence(verdict, "rank " + std::to_string(rank.rank) + ": " + last_call_text(rank));
  }
  if (verdict.culprits.empty()) return false;
  verdict.cause = "stopped";
  verdict.text = ranks_text(verdict.culprits) + (verdict.culprits.size() == 1 ? " is" : " are") +
                 " stopped (SIGSTOP, SIGTSTP or a debugger)";
  verdict.advice = "let it go on: kill -CONT PID, or detach the debugger";
  return true;
}

// What ranks have waited in for long, lowest number first, with those that wait.
struct Waiting {
  std::uint32_t comm = 0;
  std::uint64_t op = 0;
  const FlightOperation* operation = nullptr;
  std::vector<int> ranks;
  Nanos longest = 0;
  bool timed_out = false;
};

// Operations that ended by a deadline too, and however long it was: others were awaited in them.
std::vector<Waiting> waits_of(const std::vector<FlightRank>& ranks) {
  std::map<std::pair<std::uint32_t, std::uint64_t>, Waiting> waits;
  for (const FlightRank& rank : ranks) {
    for (const auto& [key, operation] : rank.operations) {
      const bool timed_out = operation.end && operation.code == Code::kTimeout;
      if (operation.end && !timed_out) continue;
      Waiting& waiting = waits[key];
      waiting.comm = key.first;
      waiting.op = key.second;
      waiting.ranks.push_back(rank.rank);
      waiting.operation = &operation;
      const Nanos until = operation.end.value_or(rank.dump->taken());
      if (operation.start) waiting.longest = std::max(waiting.longest, until - *operation.start);
      waiting.timed_out = waiting.timed_out || timed_out;
    }
  }
  std::vector<Waiting> list;
  for (auto& [key, waiting] : waits) {
    if (waiting.timed_out || waiting.longest >= kWorthAWord) list.push_back(std::move(waiting));
  }
  return list;
}

bool judge_not_called(const std::vector<FlightRank>& ranks, const std::vector<Waiting>& waits,
                      FlightVerdict& verdict) {
  for (const Waiting& waiting : waits) {
    std::vector<const FlightRank*> behind;
    for (const FlightRank& rank : ranks) {
      const auto group = rank.groups.find(waiting.comm);
      if (group == rank.groups.end() || group->second.started >= waiting.op) continue;
      // Who still is in an earlier one is not the cause but waits itself.
      const auto own = rank.pending();
      if (std::none_of(own.begin(), own.end(), [&](const FlightOperation* operation) {
            return operation->comm == waiting.comm;
          })) {
        behind.push_back(&rank);
      }
    }
    if (behind.empty()) continue;
    for (const FlightRank* rank : behind) {
      verdict.culprits.push_back(rank->rank);
      add_evidence(verdict, "rank " + std::to_string(rank->rank) + ": " + last_call_text(*rank));
    }
    verdict.cause = "not_called";
    verdict.text = ranks_text(verdict.culprits) +
                   (verdict.culprits.size() == 1 ? " has" : " have") + " not called " +
                   waiting.operation->label() + ", in which " + ranks_text(waiting.ranks) +
                   (waiting.ranks.size() == 1 ? " waited " : " wait ") + ago(waiting.longest);
    verdict.advice =
        "look where that rank is (gdb -p PID, py-spy dump): a dead data loader, a "
        "branch that others did not take, an exception that was caught";
    return true;
  }
  return false;
}

// Ranks without a record whom others wait for or say something about.
bool judge_no_record(const std::vector<FlightRank>& ranks, const std::vector<Waiting>& waits,
                     FlightVerdict& verdict) {
  const std::vector<int> missing = missing_ranks(ranks);
  const std::set<int> absent(missing.begin(), missing.end());
  std::map<int, int> votes;
  std::map<int, std::string> words;
  for (const FlightRank& rank : ranks) {
    for (const FlightOperation* operation : rank.pending()) {
      for (const int peer : operation->awaits) votes[peer] += absent.count(peer) != 0 ? 1 : 0;
    }
    for (const FlightPeer& peer : rank.peers) {
      if (peer.kind == Kind::kVerdict && absent.count(peer.peer) != 0) {
        ++votes[peer.peer];
        words[peer.peer] = peer.text;
      }
    }
  }
  const auto most = std::max_element(
      votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == votes.end() || most->second == 0) return false;
  verdict.cause = "no_record";
  verdict.culprits = {most->first};
  verdict.text = "rank " + std::to_string(most->first) + ", of which no record was given, ";
  verdict.text += words.count(most->first) != 0 ? words[most->first] : std::string("is awaited");
  if (!waits.empty()) {
    verdict.text += "; " + ranks_text(waits.front().ranks) + " waited " +
                    ago(waits.front().longest) + " in " + waits.front().operation->label();
  }
  verdict.advice = "read that rank's record too (kill -USR2 of the launcher writes all)";
  return true;
}

bool judge_lost(const std::vector<FlightRank>& ranks, FlightVerdict& verdict) {
  std::map<int, int> votes;
  std::map<int, std::string> words;
  for (const FlightRank& rank : ranks) {
    for (const auto& [key, operation] : rank.operations) {
      if (operation.code != Code::kPeerLost || operation.peer < 0) continue;
      ++votes[operation.peer];
      words[operation.peer] = operation.text;
    }
    for (const FlightPeer& peer : rank.peers) {
      if (peer.kind != Kind::kLost) continue;
      ++votes[peer.peer];
      words[peer.peer] = peer.text;
    }
  }
  if (votes.empty()) return false;
  const auto most = std::max_element(
      votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  verdict.cause = "lost";
  verdict.culprits = {most->first};
  verdict.text = "rank " + std::to_string(most->first) + " was lost";
  if (!words[most->first].empty()) add_evidence(verdict, words[most->first]);
  verdict.advice = "look at that rank's process and host: memory, network, its own last messages";
  return true;
}

// All are in the operation: the one that is awaited and awaits nobody, or else a circle.
bool judge_waits(const std::vector<FlightRank>& ranks, const std::vector<Waiting>& waits,
                 FlightVerdict& verdict) {
  if (waits.empty()) return false;
  const Waiting& waiting = waits.front();
  std::set<int> awaited;
  std::set<int> awaiting;
  for (const FlightRank& rank : ranks) {
    const FlightOperation* const operation = rank.find(waiting.comm, waiting.op);
    if (operation == nullptr) continue;
    if (operation->awaited > 0) awaiting.insert(rank.rank);
    awaited.insert(operation->awaits.begin(), operation->awaits.end());
    if (operation->awaits.empty()) continue;
    add_evidence(verdict, "rank " + std::to_string(rank.rank) + " waits for " +
                              ranks_text(operation->awaits));
  }
  for (const int rank : awaited) {
    if (awaiting.count(rank) == 0) verdict.culprits.push_back(rank);
  }
  verdict.cause = "waits";
  verdict.text = ranks_text(waiting.ranks) + " had been in " + waiting.operation->label() +
                 " for " + ago(waiting.longest);
  verdict.text += verdict.culprits.empty()
                      ? "; nobody is behind"
                      : "; " + ranks_text(verdict.culprits) + " waits for nobody";
  verdict.advice = "a slow or busy rank, or a slow link: take a second record and compare";
  return true;
}

bool judge_failed(const std::vector<FlightRank>& ranks, FlightVerdict& verdict) {
  for (const FlightRank& rank : ranks) {
    const FlightOperation* const failed = rank.first_failed();
    if (failed == nullptr) continue;
    if (failed->peer >= 0 && verdict.culprits.empty()) verdict.culprits = {failed->peer};
    add_evidence(verdict, "rank " + std::to_string(rank.rank) + ": " + failed->label() + ": " +
                              to_string(failed->code) + ": " + failed->text);
  }
  if (verdict.evidence.empty()) return false;
  verdict.cause = "failed";
  verdict.text = "operations failed";
  verdict.advice = "see the messages";
  return true;
}

}  // namespace

std::string ranks_text(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
    if (last > i) text += "-" + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

std::vector<int> missing_ranks(const std::vector<FlightRank>& ranks) {
  constexpr int kWorldMax = 65536;
  std::set<int> present;
  int world = 0;
  for (const FlightRank& rank : ranks) {
    present.insert(rank.rank);
    world = std::max(world, std::min(rank.dump->header.world_size, kWorldMax));
  }
  std::vector<int> missing;
  for (int rank = 0; rank < world; ++rank) {
    if (present.count(rank) == 0) missing.push_back(rank);
  }
  return missing;
}

std::vector<GroupProgress> compare_groups(const std::vector<FlightRank>& ranks) {
  std::map<std::uint32_t, GroupProgress> groups;
  for (const FlightRank& rank : ranks) {
    for (const auto& [id, group] : rank.groups) {
      GroupProgress& progress = groups[id];
      progress.comm = id;
      progress.size = std::max(progress.size, group.size);
      progress.last_common =
          progress.seen == 0 ? group.started : std::min(progress.last_common, group.started);
      progress.last_called = std::max(progress.last_called, group.started);
      ++progress.seen;
    }
  }
  std::vector<GroupProgress> list;
  for (auto& [id, progress] : groups) {
    // Called with the same number does not mean the same.
    while (progress.last_common > 0 && calls_of(ranks, id, progress.last_common).size() > 1) {
      --progress.last_common;
    }
    for (const FlightRank& rank : ranks) {
      const FlightOperation* const operation = rank.find(id, progress.last_common);
      if (operation != nullptr) progress.last_common_label = operation->label();
    }
    list.push_back(std::move(progress));
  }
  return list;
}

FlightVerdict judge(const std::vector<FlightRank>& ranks) {
  FlightVerdict verdict;
  const std::vector<Waiting> waits = waits_of(ranks);
  if (judge_killed(ranks, verdict) || judge_mismatch(ranks, verdict) ||
      judge_stopped(ranks, verdict) || judge_not_called(ranks, waits, verdict) ||
      judge_no_record(ranks, waits, verdict) || judge_lost(ranks, verdict) ||
      judge_waits(ranks, waits, verdict) || judge_failed(ranks, verdict)) {
    return verdict;
  }
  verdict.text = "no operation had failed or waited for long";
  return verdict;
}

}  // namespace syncline::observe
