#include "tests/sim/world.h"

#include <algorithm>

#include "tests/sim/rules.h"

namespace syncline::sim {
namespace {

constexpr Nanos kStepMin = 100 * kMicrosecond;
constexpr Nanos kStepMax = 5 * kMillisecond;

// A process of another job that was given the addresses of a dead one.
class Squatter {
 public:
  Squatter(Network& network, const cluster::Member& dead, int host) : network_(network) {
    cluster::AcceptorOptions options;
    options.handshake.key = key_of(Identity());
    options.handshake.run_id = Identity().run_id;
    options.handshake.rank = dead.rank;
    options.handshake.world_size = 64;
    options.handshake.incarnation = dead.incarnation + 1;
    options.outside.random = [this](std::span<std::byte> out) {
      for (std::byte& each : out) each = static_cast<std::byte>(random_());
    };
    for (std::size_t rail = 0; rail < dead.addresses.size(); ++rail) {
      const auto where = transport::tcp::parse_host_port(dead.addresses[rail]);
      auto listener = network.listen(host, static_cast<int>(rail), where.value().port);
      if (!listener.ok()) continue;
      acceptors_.push_back(
          std::make_unique<cluster::Acceptor>(poller_, network, std::move(listener).value(),
                                              options, [](const cluster::AuthenticatedSocket&) {}));
    }
  }
  void step() {
    for (const auto& acceptor : acceptors_) acceptor->progress(network_.now());
  }

 private:
  Network& network_;
  event::Poller poller_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<cluster::Acceptor>> acceptors_;
};

class World {
 public:
  World(const Scenario& scenario, std::FILE* trace)
      : scenario_(scenario),
        trace_(trace),
        network_(scenario.seed),
        random_(~scenario.seed),
        start_(network_.now()),
        rules_(scenario, places_, [this](const std::string& what) { violate(what); }) {
    lay_paths();
    for (int rank = 0; rank < scenario.ranks; ++rank) {
      Identity identity;
      identity.rank = identity.host = rank;
      add_place(identity, scenario.starts[static_cast<std::size_t>(rank)]);
    }
    if (scenario.intruder) add_intruder(*scenario.intruder);
  }

  Outcome go() {
    Nanos step = kStepMin;
    while (outcome_.violation.empty() && !all_over()) {
      network_.advance(step);
      apply_faults();
      const bool moved = step_places();
      step = moved ? kStepMin : std::min(2 * step, kStepMax);
      rules_.check(network_.now());
    }
    if (outcome_.violation.empty()) rules_.check_end();
    outcome_.virtual_time = elapsed();
    if (rules_.all_started()) ++outcome_.jobs_started;
    outcome_.joins_failed = rules_.joins_failed();
    for (Place& place : places_) {
      if (place.process) add_stats(*place.process);
    }
    for (Place& place : places_) place.process.reset();
    return outcome_;
  }

 private:
  Nanos elapsed() const { return network_.now() - start_; }

  void lay_paths() {
    const int hosts = scenario_.ranks + 1;
    for (int a = 0; a < hosts; ++a) {
      for (int b = 0; b < hosts; ++b) {
        for (int rail = 0; rail < scenario_.rails; ++rail) {
          auto& path = network_.path(a, b, rail);
          path.latency = scenario_.latency;
          path.jitter = scenario_.jitter;
          path.bytes_per_ms = scenario_.bytes_per_ms;
        }
      }
    }
  }

  void add_place(Identity identity, Nanos start) {
    identity.world_size = scenario_.ranks;
    identity.rails = scenario_.rails;
    Place place;
    place.identity = std::move(identity);
    place.start = start;
    places_.push_back(std::move(place));
  }

  void add_intruder(const Intruder& intruder) {
    Identity identity;
    identity.rank = intruder.rank;
    identity.host = scenario_.ranks;
    if (intruder.kind == Intruder::Kind::kOtherRun) identity.run_id = "another";
    if (intruder.kind == Intruder::Kind::kOtherKey) ++identity.key_fill;
    add_place(identity, intruder.at);
    places_.back().intrudes = true;
  }

  bool all_over() const {
    return std::all_of(places_.begin(), places_.end(),
                       [](const Place& place) { return place.over(); });
  }

  // The order of turns is part of what the seed decides.
  bool step_places() {
    const std::uint64_t delivered = network_.bytes_delivered();
    bool moved = false;
    const std::size_t first = random_() % places_.size();
    for (std::size_t i = 0; i < places_.size(); ++i) {
      Place& place = places_[(first + i) % places_.size()];
      if (place.dead || elapsed() < place.start || network_.now() < place.paused_until) continue;
      const auto at = static_cast<std::size_t>(place.identity.rank);
      const auto slowness = static_cast<unsigned>(scenario_.slowness[at]);
      if (slowness > 1 && random_() % slowness != 0) continue;
      moved |= step_place(place);
    }
    if (squatter_) squatter_->step();
    return moved || network_.bytes_delivered() != delivered;
  }

  bool step_place(Place& place) {
    const int who = place.identity.host;
    if (!place.process) {
      note(who, "starts");
      const auto generation = static_cast<std::uint64_t>(who + 100 * place.generation);
      place.process =
          std::make_unique<SimRank>(network_, scenario_, place.identity, generation,
                                    [this, who](const std::string& line) { note(who, line); });
      return true;
    }
    SimRank& process = *place.process;
    const bool joined_before = !process.joining();
    if (joined_before && !process.alive()) return false;
    const bool moved = process.step();
    if (!joined_before) {
      rules_.on_join_step(place, network_.now());
      if (process.alive()) note(who, "has joined");
      if (!process.join_status().ok()) note(who, process.join_status().to_string());
    }
    while (!process.ends().empty()) {
      const CallEnd& end = process.ends().front();
      note(who, "call " + std::to_string(end.index) + ": " +
                    (end.status.ok() ? std::string("ok") : end.status.to_string()));
      ++(end.status.ok() ? outcome_.calls_done : outcome_.calls_failed);
      rules_.on_call(place, end, network_.now());
      process.ends().pop_front();
    }
    return moved;
  }

  void apply_faults() {
    while (next_fault_ < scenario_.faults.size() && scenario_.faults[next_fault_].at <= elapsed()) {
      begin_fault(scenario_.faults[next_fault_++]);
    }
    for (auto heal = heals_.begin(); heal != heals_.end();) {
      if (heal->first > network_.now()) {
        ++heal;
        continue;
      }
      heal->second();
      heal = heals_.erase(heal);
    }
  }

  void later(const Fault& fault, std::function<void()> heal) {
    heals_.emplace_back(std::min(start_ + fault.at + fault.span, kFaultsEnd), std::move(heal));
  }

  void set_up(int a, int b, int rail, bool up) {
    const bool gone = vanished_ == a || vanished_ == b;
    if (!gone) network_.set_up(a, b, rail, up);
  }

  void begin_fault(const Fault& fault) {
    note(-1, describe(fault));
    rules_.on_fault(fault, network_.path(fault.a, fault.b, fault.rail).up);
    using Path = transport::sim::Path;
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
        places_[static_cast<std::size_t>(fault.a)].paused_until =
            std::min(network_.now() + fault.span, kFaultsEnd);
        return;
      case FaultKind::kDamage:
        return for_paths(fault, 20, [](Path& path, int n) { path.damaged_per_mille = n; });
      case FaultKind::kStalls:
        return for_paths(fault, 30, [](Path& path, int n) { path.stalls_per_mille = n; });
      case FaultKind::kRepeat:
        network_.repeat(fault.a, kRendezvousPort, 200);
        return later(fault, [this, fault] { network_.repeat(fault.a, kRendezvousPort, 0); });
      case FaultKind::kCrash:
      case FaultKind::kVanish:
        return kill(fault);
    }
  }

  // Without a process there, nothing dies.
  void kill(const Fault& fault) {
    Place& place = places_[static_cast<std::size_t>(fault.a)];
    if (!place.process || (!place.process->joining() && !place.process->alive())) return;
    SimRank& process = *place.process;
    const bool silently = fault.kind == FaultKind::kVanish;
    const bool had_table = process.has_table();
    const bool joins_again = fault.restarts && !had_table;
    rules_.on_death(fault, had_table, joins_again, network_.now());
    network_.crash(fault.a, silently);
    process.die();
    if (silently) vanished_ = fault.a;
    place.dead = !joins_again;
    if (joins_again) {
      ++outcome_.restarts;
      ++place.generation;
      place.process.reset();
      place.start = elapsed() + fault.span;
    } else if (fault.restarts && process.view() != nullptr) {
      const auto& self = process.view()->members[static_cast<std::size_t>(fault.a)];
      squatter_ = std::make_unique<Squatter>(network_, self, fault.a);
    }
  }

  void split(int before, bool up) {
    for (int a = 0; a < before; ++a) {
      for (int b = before; b < scenario_.ranks; ++b) {
        for (int rail = 0; rail < scenario_.rails; ++rail) set_up(a, b, rail, up);
      }
    }
  }

  // Everything that a sends, to the end of the fault.
  void for_paths(const Fault& fault, int value, void (*change)(transport::sim::Path&, int)) {
    const auto all = [this, fault, change](int per_mille) {
      for (int to = 0; to < scenario_.ranks; ++to) {
        for (int rail = 0; rail < scenario_.rails; ++rail) {
          change(network_.path(fault.a, to, rail), per_mille);
        }
      }
    };
    all(value);
    later(fault, [all] { all(0); });
  }

  void violate(const std::string& what) {
    if (!outcome_.violation.empty()) return;
    outcome_.violation = what;
    note(-1, "VIOLATION: " + what);
  }

  // FNV-1a over all lines.
  void note(int host, const std::string& line) {
    const std::string text = std::to_string(elapsed()) + " " + std::to_string(host) + " " + line;
    for (const char c : text) {
      outcome_.digest = (outcome_.digest ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    }
    if (trace_ == nullptr) return;
    const std::string who = host < 0 ? "network" : "host " + std::to_string(host);
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
  const Nanos start_;
  std::vector<Place> places_;  // one for each rank, then the intruder
  Rules rules_;
  std::unique_ptr<Squatter> squatter_;
  std::size_t next_fault_ = 0;
  std::vector<std::pair<Nanos, std::function<void()>>> heals_;
  int vanished_ = -1;
  Outcome outcome_;
};

}  // namespace

Outcome run(const Scenario& scenario, std::FILE* trace) {
  if (trace != nullptr) std::fprintf(trace, "%s\n", describe(scenario).c_str());
  return World(scenario, trace).go();
}

}  // namespace syncline::sim
