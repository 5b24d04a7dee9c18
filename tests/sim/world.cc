#include "tests/sim/world.h"

#include <algorithm>
#include <map>

#include "tests/sim/rank.h"

namespace syncline::sim {
namespace {

constexpr Nanos kStepMin = 100 * kMicrosecond;
constexpr Nanos kStepMax = 5 * kMillisecond;
constexpr Nanos kFaultsEnd = 3 * kSecond;  // everything that can heal has healed
constexpr Nanos kProgressLimit = 5 * kSecond;
// A silent death is known after the silence, an abort or an inquiry later.
constexpr Nanos kDeathLimit = SimRank::kSilence + 3 * kSecond;

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

class World {
 public:
  World(const Scenario& scenario, std::FILE* trace)
      : scenario_(scenario), trace_(trace), network_(scenario.seed), random_(~scenario.seed) {}

  Outcome go() {
    wire();
    start_ = network_.now();
    Nanos step = kStepMin;
    while (outcome_.violation.empty() && !all_finished()) {
      network_.advance(step);
      apply_faults();
      const bool moved = step_ranks();
      step = moved ? kStepMin : std::min(2 * step, kStepMax);
      check_links();
      check_deadline();
    }
    if (scenario_.dissenter >= 0 && outcome_.violation.empty()) check_all_learned();
    outcome_.virtual_time = network_.now() - start_;
    for (auto& rank : ranks_) add_stats(*rank);
    for (auto& rank : ranks_) rank->die();
    return outcome_;
  }

 private:
  Nanos elapsed() const { return network_.now() - start_; }

  void wire() {
    for (int a = 0; a < scenario_.ranks; ++a) {
      ranks_.push_back(std::make_unique<SimRank>(
          network_, scenario_, a, [this, a](const std::string& line) { note(a, line); }));
      for (int b = 0; b < scenario_.ranks; ++b) {
        for (int rail = 0; rail < scenario_.rails; ++rail) {
          auto& path = network_.path(a, b, rail);
          path.latency = scenario_.latency;
          path.jitter = scenario_.jitter;
          path.bytes_per_ms = scenario_.bytes_per_ms;
        }
      }
    }
    for (int a = 0; a < scenario_.ranks; ++a) {
      for (int b = a + 1; b < scenario_.ranks; ++b) {
        auto [at_a, at_b] = network_.pair(a, b, 0);
        ranks_[static_cast<std::size_t>(a)]->link_to(b, std::move(at_a));
        ranks_[static_cast<std::size_t>(b)]->link_to(a, std::move(at_b));
      }
    }
    for (auto& rank : ranks_) rank->begin();
  }

  bool all_finished() const {
    return std::all_of(ranks_.begin(), ranks_.end(),
                       [](const auto& rank) { return !rank->alive() || rank->finished(); });
  }

  // The order of turns is part of what the seed decides.
  bool step_ranks() {
    bool moved = false;
    const std::size_t first = random_() % ranks_.size();
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      const std::size_t at = (first + i) % ranks_.size();
      SimRank& rank = *ranks_[at];
      if (!rank.alive()) {
        if (replaced_) rank.answer_as_another();
        continue;
      }
      if (network_.now() < rank.paused_until) continue;
      const auto slowness = static_cast<unsigned>(scenario_.slowness[at]);
      if (slowness > 1 && random_() % slowness != 0) continue;
      moved |= rank.step();
      while (!rank.ends().empty()) {
        judge(static_cast<int>(at), rank.ends().front());
        rank.ends().pop_front();
      }
    }
    return moved;
  }

  void apply_faults() {
    while (next_fault_ < scenario_.faults.size() && scenario_.faults[next_fault_].at <= elapsed()) {
      begin_fault(scenario_.faults[next_fault_++]);
    }
    for (auto heal = heals_.begin(); heal != heals_.end();) {
      if (heal->first > elapsed()) {
        ++heal;
        continue;
      }
      heal->second();
      heal = heals_.erase(heal);
    }
  }

  void later(const Fault& fault, std::function<void()> heal) {
    heals_.emplace_back(std::min(fault.at + fault.span, kFaultsEnd), std::move(heal));
  }

  void set_up(int a, int b, int rail, bool up) {
    const bool gone = vanished_ == a || vanished_ == b;
    if (!gone) network_.set_up(a, b, rail, up);
  }

  void begin_fault(const Fault& fault) {
    note(-1, describe(fault));
    switch (fault.kind) {
      case FaultKind::kReset:
        return network_.reset(fault.a, fault.b, fault.rail);
      case FaultKind::kCut:
        set_up(fault.a, fault.b, fault.rail, false);
        return later(fault, [this, fault] { set_up(fault.a, fault.b, fault.rail, true); });
      case FaultKind::kHalves:
        split(fault.a, false);
        return later(fault, [this, fault] { split(fault.a, true); });
      case FaultKind::kPause:
        ranks_[static_cast<std::size_t>(fault.a)]->paused_until =
            std::min(network_.now() + fault.span, start_ + kFaultsEnd);
        return;
      case FaultKind::kDamage:
        for_paths(fault.a, [](transport::sim::Path& path) { path.damaged_per_mille = 20; });
        return later(fault, [this, fault] {
          for_paths(fault.a, [](transport::sim::Path& path) { path.damaged_per_mille = 0; });
        });
      case FaultKind::kStalls:
        for_paths(fault.a, [](transport::sim::Path& path) { path.stalls_per_mille = 30; });
        return later(fault, [this, fault] {
          for_paths(fault.a, [](transport::sim::Path& path) { path.stalls_per_mille = 0; });
        });
      case FaultKind::kCrash:
      case FaultKind::kVanish:
        return kill(fault);
    }
  }

  void kill(const Fault& fault) {
    died_at_ = elapsed();
    const bool silently = fault.kind == FaultKind::kVanish;
    network_.crash(fault.a, silently);
    ranks_[static_cast<std::size_t>(fault.a)]->die();
    if (silently) vanished_ = fault.a;
    if (!fault.restarts) return;
    network_.revive(fault.a);
    replaced_ = true;
    ranks_[static_cast<std::size_t>(fault.a)]->be_replaced();
  }

  void split(int before, bool up) {
    for (int a = 0; a < before; ++a) {
      for (int b = before; b < scenario_.ranks; ++b) {
        for (int rail = 0; rail < scenario_.rails; ++rail) set_up(a, b, rail, up);
      }
    }
  }

  template <class Change>
  void for_paths(int from, Change change) {
    for (int to = 0; to < scenario_.ranks; ++to) {
      for (int rail = 0; rail < scenario_.rails; ++rail) change(network_.path(from, to, rail));
    }
  }

  void judge(int rank, const CallEnd& end) {
    note(rank, "call " + std::to_string(end.index) + ": " +
                   (end.status.ok() ? std::string("ok") : end.status.to_string()));
    const std::string where =
        "rank " + std::to_string(rank) + ", call " + std::to_string(end.index) + ": ";
    if (!end.right) return violate(where + "wrong result");
    if (!end.input_intact) return violate(where + "the input was changed");
    if (end.status.ok()) {
      ++outcome_.calls_done;
      const auto failed = failed_at_.find(rank);
      if (failed != failed_at_.end() && end.started > failed->second) {
        violate(where + "went well in a group that had died");
      }
      return;
    }
    ++outcome_.calls_failed;
    const bool first = failed_at_.emplace(rank, network_.now()).second;
    if (scenario_.dissenter >= 0) {
      if (first && end.status.code() != Code::kMismatch) {
        violate(where + "failed with " + end.status.to_string() + " where ranks disagree");
      }
    } else if (died_at_ < 0) {
      violate(where + "failed although every rank lives: " + end.status.to_string());
    } else if (first && end.status.peer() != scenario_.victim) {
      violate(where + "blames rank " + std::to_string(end.status.peer()) + " for the death of " +
              std::to_string(scenario_.victim) + ": " + end.status.to_string());
    }
  }

  // A later call that needs everybody cannot have gone well for anyone.
  void check_all_learned() {
    const bool had_to = std::any_of(scenario_.calls.begin() + scenario_.dissent + 1,
                                    scenario_.calls.end(), needs_everybody);
    if (!had_to) return;
    for (int rank = 0; rank < scenario_.ranks; ++rank) {
      if (failed_at_.count(rank) == 0) {
        violate("rank " + std::to_string(rank) + " never learned that ranks disagreed");
      }
    }
  }

  void check_links() {
    for (const auto& rank : ranks_) {
      for (const auto& [peer, link] : rank->links()) {
        if (link->link().stored_bytes() <= cluster::LinkConfig().window + 64) continue;
        return violate("a link stores " + std::to_string(link->link().stored_bytes()) + " bytes");
      }
    }
  }

  // I13: when the faults have ended, everything ends.
  void check_deadline() {
    Nanos limit = kFaultsEnd + kProgressLimit;
    if (died_at_ >= 0) limit = std::max(limit, std::max(died_at_, kFaultsEnd) + kDeathLimit);
    const auto slowest = *std::max_element(scenario_.slowness.begin(), scenario_.slowness.end());
    limit += slowest * kSecond;
    if (elapsed() < limit) return;
    std::string text = "no end " + std::to_string((elapsed() - kFaultsEnd) / kMillisecond) +
                       " ms after the faults";
    for (const auto& rank : ranks_) {
      if (rank->alive() && !rank->finished()) text += "; " + rank->waiting();
    }
    violate(text);
  }

  void violate(const std::string& what) {
    if (!outcome_.violation.empty()) return;
    outcome_.violation = what;
    note(-1, "VIOLATION: " + what);
  }

  // FNV-1a over all lines.
  void note(int rank, const std::string& line) {
    const std::string text = std::to_string(elapsed()) + " " + std::to_string(rank) + " " + line;
    for (const char c : text) {
      outcome_.digest = (outcome_.digest ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    }
    if (trace_ == nullptr) return;
    const std::string who = rank < 0 ? "network" : "rank " + std::to_string(rank);
    std::fprintf(trace_, "%10.3f ms  %s: %s\n", static_cast<double>(elapsed()) / kMillisecond,
                 who.c_str(), line.c_str());
  }

  void add_stats(const SimRank& rank) {
    for (const auto& [peer, link] : rank.links()) {
      outcome_.resumes += link->link().stats().resumes;
      outcome_.duplicates += link->link().stats().duplicates;
      outcome_.damaged += link->link().stats().damaged;
      outcome_.bytes_repeated += link->link().bytes_repeated();
    }
  }

  const Scenario& scenario_;
  std::FILE* trace_;
  Network network_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<SimRank>> ranks_;
  Nanos start_ = 0;
  std::size_t next_fault_ = 0;
  std::vector<std::pair<Nanos, std::function<void()>>> heals_;
  Nanos died_at_ = -1;
  int vanished_ = -1;
  bool replaced_ = false;
  std::map<int, Nanos> failed_at_;  // by rank: its first failure
  Outcome outcome_;
};

}  // namespace

Outcome run(const Scenario& scenario, std::FILE* trace) {
  if (trace != nullptr) std::fprintf(trace, "%s\n", describe(scenario).c_str());
  return World(scenario, trace).go();
}

}  // namespace syncline::sim
