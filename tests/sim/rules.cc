#include "tests/sim/rules.h"

#include <algorithm>

namespace syncline::sim {
namespace {

constexpr Nanos kProgressLimit = 5 * kSecond;
// A path that was dead for long is tried again seconds after it healed; then come the mesh's turns.
constexpr Nanos kJoinProgressLimit = 7 * kSecond;
// A silent death is known after the silence, an abort or an inquiry later.
constexpr Nanos kDeathLimit = SimRank::kSilence + 3 * kSecond;
constexpr Nanos kNewsLimit = 10 * kMillisecond;
// Of a join that fails: rank 0 waits a second for guests that do not read.
constexpr Nanos kJoinSlack = 1500 * kMillisecond;

// No rank can finish it without data of all others. A rank that only sends, as the root of a
// broadcast does, may be calls ahead of what its peers know.
bool needs_everybody(const PlannedCall& call) {
  switch (call.kind) {
    case Collective::kAllReduce:
    case Collective::kReduceScatter:
    case Collective::kAllGather:
      return call.count > 0;
    default:
      return false;
  }
}

std::string name_of(const Place& place) {
  const std::string kind = !place.intrudes                  ? ""
                           : place.identity.run_id == "sim" ? "second "
                                                            : "stray ";
  return kind + "rank " + std::to_string(place.identity.rank);
}

}  // namespace

// Between table and start rank 0 gives up when it loses a guest.
bool Rules::confirms(int rank) const {
  const auto& host = places_[0].process;
  const auto& guest = places_[static_cast<std::size_t>(rank)].process;
  return host && guest && !host->gathering() && (!host->view() || !guest->view());
}

void Rules::on_fault(const Fault& fault, bool told) {
  if (all_started()) return;
  if (fault.kind == FaultKind::kDamage || fault.kind == FaultKind::kRepeat) rough_ = true;
  if (fault.kind != FaultKind::kReset) return;
  if (!told || (std::min(fault.a, fault.b) == 0 && confirms(std::max(fault.a, fault.b)))) {
    rough_ = true;
  }
}

// Rank 0 must learn of the death before it sends the table, or it counts on a process that is gone.
bool Rules::news_may_be_late() const {
  return std::any_of(scenario_.faults.begin(), scenario_.faults.end(), [](const Fault& fault) {
    return fault.kind == FaultKind::kCut || fault.kind == FaultKind::kHalves ||
           (fault.kind == FaultKind::kPause && fault.a == 0);
  });
}

void Rules::on_death(const Fault& fault, bool had_table, bool joins_again, Nanos now) {
  if (had_table) {
    died_at_ = now;
    proven_death_ = fault.kind == FaultKind::kCrash;
  } else if (!joins_again || fault.a == 0 || !places_[0].process ||
             !places_[0].process->gathering() || news_may_be_late()) {
    doomed_ = true;
  } else {
    early_death_at_ = now;
  }
}

bool Rules::is_twin(const Place& place) const {
  return scenario_.intruder && scenario_.intruder->kind == Intruder::Kind::kTwin &&
         scenario_.intruder->rank == place.identity.rank;
}

void Rules::on_join_step(const Place& place, Nanos now) {
  const SimRank& process = *place.process;
  const bool first_table = process.has_table() && had_table_.empty();
  if (first_table && early_death_at_ >= 0 && now - early_death_at_ < kNewsLimit) doomed_ = true;
  if (process.has_table()) had_table_.insert(process.incarnation());
  if (process.view() != nullptr && has_view_.insert(process.incarnation()).second) on_view(place);
  if (process.joining()) return;
  if (!place.intrudes) last_join_end_ = now;
  if (!process.join_status().ok()) return on_join_failed(place);
  started_.insert(place.identity.rank);
  if (process.wrong_peer() >= 0) {
    violate_(name_of(place) + " is connected with another process than rank " +
             std::to_string(process.wrong_peer()) + " of its view");
  }
}

void Rules::on_view(const Place& place) {
  if (place.intrudes && !is_twin(place)) return violate_(name_of(place) + " was let in");
  const cluster::View& view = *place.process->view();
  if (!view_) view_ = view;
  if (view != *view_) return violate_(name_of(place) + " has another view than others");
  const auto rank = static_cast<std::size_t>(place.identity.rank);
  if (view.members[rank].incarnation != place.process->incarnation()) {
    return violate_(name_of(place) + " is not in its own view");
  }
  for (const auto& member : view.members) {
    if (had_table_.count(member.incarnation) == 0) {
      violate_(name_of(place) + " may start although rank " + std::to_string(member.rank) +
               " never had the table");
    }
    if (refused_.count(member.incarnation) != 0) {
      violate_(name_of(place) + " may start with a member that was refused");
    }
  }
}

bool Rules::may_end_with(const Place& place, Code code) const {
  switch (code) {
    case Code::kTimeout:
    case Code::kPeerLost:
      return true;
    case Code::kMismatch:
      return rough_ || is_twin(place) || place.intrudes || place.generation > 0;
    case Code::kFailedPrecondition:
      return rough_ || place.identity.key_fill != Identity().key_fill;
    case Code::kCorrupt:
    case Code::kLinkDown:
      return rough_;
    default:
      return false;
  }
}

void Rules::on_join_failed(const Place& place) {
  const Status& status = place.process->join_status();
  const std::string what = name_of(place) + " cannot join: " + status.to_string();
  failed_[&place] = status.code();
  if (status.message().find("unexpected message") != std::string::npos) {
    return violate_(what + ": believed what nobody sent");
  }
  if (!may_end_with(place, status.code())) return violate_(what + ": that was no reason");
  const std::uint64_t incarnation = place.process->incarnation();
  if (status.code() == Code::kMismatch && place.process->view() == nullptr) {
    refused_.insert(incarnation);
    const bool member =
        view_ &&
        view_->members[static_cast<std::size_t>(place.identity.rank)].incarnation == incarnation;
    if (member) violate_(what + ": but others start with it");
  }
  const bool foreign = place.intrudes && !is_twin(place);
  if (foreign) return;
  int others = 0;  // who could still be this rank
  for (const Place& each : places_) {
    const bool same = each.identity.rank == place.identity.rank && &each != &place;
    others += same && is_twin(each) && failed_.count(&each) == 0 ? 1 : 0;
  }
  if (others > 0 && place.process->view() == nullptr) return;
  failed_ranks_.insert(place.identity.rank);
  if (must_join()) violate_(what + ": but nothing stood in the way");
}

// Who waits for the dead one in its mesh answers nobody, and may be given up as well.
bool Rules::still_joins(int rank) const {
  return std::any_of(places_.begin(), places_.end(), [rank](const Place& place) {
    return place.identity.rank == rank && place.process && place.process->joining();
  });
}

void Rules::on_call(const Place& place, const CallEnd& end, Nanos now) {
  const std::string where = name_of(place) + ", call " + std::to_string(end.index) + ": ";
  if (!end.right) return violate_(where + "wrong result");
  if (!end.input_intact) return violate_(where + "the input was changed");
  const auto failed = call_failed_at_.find(&place);
  if (end.status.ok()) {
    if (failed != call_failed_at_.end() && end.started > failed->second) {
      violate_(where + "went well in a group that had died");
    }
    return;
  }
  const bool first = call_failed_at_.emplace(&place, now).second;
  const int blamed = end.status.peer();
  if (scenario_.dissenter >= 0 && failed_ranks_.empty()) {
    if (first && end.status.code() != Code::kMismatch) {
      violate_(where + "failed with " + end.status.to_string() + " where ranks disagree");
    }
  } else if (died_at_ < 0 && failed_ranks_.empty()) {
    violate_(where + "failed although every rank lives: " + end.status.to_string());
  } else if (first && scenario_.dissenter < 0 && blamed != scenario_.victim &&
             failed_ranks_.count(blamed) == 0 && !still_joins(blamed)) {
    violate_(where + "blames rank " + std::to_string(blamed) + " for the death of " +
             std::to_string(scenario_.victim) + ": " + end.status.to_string());
  }
}

void Rules::check(Nanos now) {
  for (const Place& place : places_) {
    if (!place.process) continue;
    if (place.process->joining()) check_joining(place, now);
    check_links(place);
  }
  if (must_join() && !all_started() && now >= kFaultsEnd + kJoinProgressLimit) {
    std::string text = "no common start " + std::to_string((now - kFaultsEnd) / kMillisecond) +
                       " ms after the faults";
    for (const Place& place : places_) {
      if (place.process && place.process->joining()) text += "; " + place.process->waiting();
    }
    violate_(text);
  }
  check_calls(now);
}

// I13: nothing waits for ever, and proof of a death is enough.
void Rules::check_joining(const Place& place, Nanos now) {
  const auto at = static_cast<std::size_t>(place.identity.rank);
  const Nanos slack = kJoinSlack + scenario_.slowness[at] * 100 * kMillisecond;
  if (now >= place.process->join_deadline() + slack) {
    return violate_(name_of(place) + " did not end its join in time: " + place.process->waiting());
  }
  if (proven_death_ && place.process->has_table() &&
      now >= std::max(died_at_, kFaultsEnd) + kJoinProgressLimit) {
    violate_(name_of(place) + " still joins long after a member died: " + place.process->waiting());
  }
}

void Rules::check_links(const Place& place) {
  for (const auto& [peer, link] : place.process->links()) {
    if (link->link().stored_bytes() <= cluster::LinkConfig().window + 64) continue;
    return violate_("a link stores " + std::to_string(link->link().stored_bytes()) + " bytes");
  }
}

// When the faults have ended, everything ends.
void Rules::check_calls(Nanos now) {
  std::string running;
  for (const Place& place : places_) {
    const bool joins = !place.dead && (!place.process || place.process->joining());
    if (joins && !place.intrudes) return;  // its end is awaited first
    if (place.process && place.process->alive() && !place.process->finished()) {
      running += "; " + place.process->waiting();
    }
  }
  if (running.empty()) return;
  const bool members_left = died_at_ >= 0 || !failed_ranks_.empty();
  const Nanos since = std::max({kFaultsEnd, last_join_end_, died_at_});
  const auto slowest = *std::max_element(scenario_.slowness.begin(), scenario_.slowness.end());
  const Nanos limit = since + (members_left ? kDeathLimit : kProgressLimit) + slowest * kSecond;
  if (now < limit) return;
  violate_("no end " + std::to_string((now - since) / kMillisecond) + " ms after the faults" +
           running);
}

void Rules::check_end() {
  if (must_join() && !all_started()) violate_("the job never started");
  if (started_.empty() || scenario_.dissenter < 0 || !failed_ranks_.empty()) return;
  // A later call that needs everybody cannot have gone well for anyone.
  const bool had_to = std::any_of(scenario_.calls.begin() + scenario_.dissent + 1,
                                  scenario_.calls.end(), needs_everybody);
  if (!had_to) return;
  for (const Place& place : places_) {
    const bool member = has_view_.count(place.process->incarnation()) != 0;
    if (member && call_failed_at_.count(&place) == 0) {
      violate_(name_of(place) + " never learned that ranks disagreed");
    }
  }
}

}  // namespace syncline::sim
