#include "tests/sim/store_world.h"

#include <algorithm>

#include "tests/sim/store_worker.h"

namespace syncline::sim {
namespace {

constexpr Nanos kTurnMin = 100 * kMicrosecond;
constexpr Nanos kTurnMax = 5 * kMillisecond;
constexpr Nanos kJoinLimit = 5 * kSecond;
// After the last fault: a silent death is noticed, and slow workers end their clocks.
constexpr Nanos kEndLimit = SimProcess::kSilence + 15 * kSecond;

class StoreWorld {
 public:
  StoreWorld(const StoreScenario& scenario, std::FILE* trace)
      : scenario_(scenario),
        trace_(trace),
        network_(scenario.network.seed),
        random_(~scenario.network.seed),
        start_(network_.now()),
        ledger_(scenario),
        workers_(static_cast<std::size_t>(scenario.workers)),
        servers_(static_cast<std::size_t>(scenario.servers)),
        paused_until_(static_cast<std::size_t>(scenario.network.ranks)) {
    for (int a = 0; a < scenario.network.ranks; ++a) {
      for (int b = 0; b < scenario.network.ranks; ++b) {
        auto& path = network_.path(a, b, 0);
        path.latency = scenario.network.latency;
        path.jitter = scenario.network.jitter;
        path.bytes_per_ms = scenario.network.bytes_per_ms;
      }
    }
  }

  Outcome go() {
    Nanos turn = kTurnMin;
    while (outcome_.violation.empty() && !all_over()) {
      network_.advance(turn);
      if (joined_at_ >= 0) apply_faults();
      turn = step_all() ? kTurnMin : std::min(2 * turn, kTurnMax);
      check();
    }
    outcome_.virtual_time = elapsed();
    for (const auto& worker : workers_) {
      outcome_.calls_done += worker ? worker->checked() : 0;
      outcome_.calls_failed += worker ? worker->refused() : 0;
    }
    if (outcome_.violation.empty()) ++outcome_.jobs_started;
    workers_.clear();
    servers_.clear();
    return outcome_;
  }

 private:
  Nanos elapsed() const { return network_.now() - start_; }
  bool lives(std::size_t worker) const { return static_cast<int>(worker) != dead_; }

  // -- turns
  // Their order is part of what the seed decides.
  bool step_all() {
    const std::uint64_t delivered = network_.bytes_delivered();
    bool moved = false;
    const auto ranks = static_cast<std::size_t>(scenario_.network.ranks);
    const std::size_t first = random_() % ranks;
    for (std::size_t i = 0; i < ranks; ++i) {
      const std::size_t rank = (first + i) % ranks;
      const auto slowness = static_cast<unsigned>(scenario_.network.slowness[rank]);
      if (elapsed() < scenario_.network.starts[rank] || network_.now() < paused_until_[rank] ||
          (slowness > 1 && random_() % slowness != 0)) {
        continue;
      }
      moved |= step(rank);
    }
    if (joined_at_ < 0 && all_joined()) {
      joined_at_ = elapsed();
      note("all have joined");
    }
    return moved || network_.bytes_delivered() != delivered;
  }

  bool step(std::size_t rank) {
    Identity identity;
    identity.rank = identity.host = static_cast<int>(rank);
    identity.world_size = scenario_.network.ranks;
    const auto log = [this, rank](const std::string& line) {
      note("rank " + std::to_string(rank) + ": " + line);
    };
    if (rank < workers_.size()) {
      auto& worker = workers_[rank];
      if (!lives(rank)) return false;
      if (!worker) {
        worker = std::make_unique<StoreWorker>(network_, scenario_, identity, ledger_, log);
      }
      const bool moved = worker->step();
      if (!worker->violation().empty()) violate(worker->violation());
      return moved;
    }
    auto& server = servers_[rank - workers_.size()];
    if (!server) server = std::make_unique<StoreServer>(network_, scenario_, identity, log);
    const bool moved = server->step();
    const std::string excess = server->excess();
    if (!excess.empty()) violate("server " + std::to_string(rank - workers_.size()) + " " + excess);
    return moved;
  }

  bool all_joined() const {
    const auto joined = [](const auto& each) { return each && !each->joining(); };
    return std::all_of(workers_.begin(), workers_.end(), joined) &&
           std::all_of(servers_.begin(), servers_.end(), joined);
  }

  // The last worker looks at what all have left behind.
  bool all_over() {
    if (joined_at_ < 0) return false;
    std::size_t last = workers_.size();
    bool finished = true, others_left = true;
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      if (!lives(w)) continue;
      finished = finished && workers_[w]->finished();
      if (last == workers_.size()) {
        last = w;
      } else {
        if (workers_[w]->finished()) workers_[w]->leave_now();
        others_left = others_left && workers_[w]->is_over();
      }
    }
    if (last == workers_.size()) return true;
    if (finished && others_left) workers_[last]->set_last();
    return workers_[last]->is_over() && others_left &&
           std::all_of(servers_.begin(), servers_.end(),
                       [](const auto& server) { return server->is_over(); });
  }

  // -- faults
  void apply_faults() {
    const auto& faults = scenario_.network.faults;
    while (next_fault_ < faults.size() && faults[next_fault_].at <= elapsed() - joined_at_) {
      begin_fault(faults[next_fault_++]);
    }
    if (to_die_ && may_die(*to_die_)) kill(*to_die_);
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
    heals_.emplace_back(elapsed() + fault.span, std::move(heal));
    quiet_at_ = std::max(quiet_at_, elapsed() + fault.span);
  }

  void set_up(int a, int b, bool up) {
    if (vanished_ != a && vanished_ != b) network_.set_up(a, b, 0, up);
  }

  void begin_fault(const Fault& fault) {
    note(describe(fault));
    using Path = transport::sim::Path;
    switch (fault.kind) {
      case FaultKind::kReset:
        return network_.reset(fault.a, fault.b, 0);
      case FaultKind::kCut:
        set_up(fault.a, fault.b, false);
        return later(fault, [this, fault] { set_up(fault.a, fault.b, true); });
      case FaultKind::kPause:
        paused_until_[static_cast<std::size_t>(fault.a)] = network_.now() + fault.span;
        return later(fault, [] {});
      case FaultKind::kDamage:
        return for_paths(fault, 20, [](Path& path, int n) { path.damaged_per_mille = n; });
      case FaultKind::kStalls:
        return for_paths(fault, 30, [](Path& path, int n) { path.stalls_per_mille = n; });
      case FaultKind::kCrash:
      case FaultKind::kVanish:
        to_die_ = fault;
        return;
      default:
        return;
    }
  }

  void for_paths(const Fault& fault, int value, void (*change)(transport::sim::Path&, int)) {
    const auto all = [this, fault, change](int per_mille) {
      for (int to = 0; to < scenario_.network.ranks; ++to) {
        change(network_.path(fault.a, to, 0), per_mille);
      }
    };
    all(value);
    later(fault, [all] { all(0); });
  }

  // Without worker 0 there would be no keys, and nobody to end it.
  bool may_die(const Fault& fault) const {
    return fault.a != 0 || std::all_of(workers_.begin(), workers_.end(),
                                       [](const auto& worker) { return worker->ready(); });
  }

  void kill(Fault fault) {
    to_die_.reset();
    auto& worker = workers_[static_cast<std::size_t>(fault.a)];
    if (worker->is_over()) return;
    note("worker " + std::to_string(fault.a) + " is dead");
    network_.crash(fault.a, fault.kind == FaultKind::kVanish);
    if (fault.kind == FaultKind::kVanish) vanished_ = fault.a;
    ledger_.died(fault.a);
    worker->die();
    dead_ = fault.a;
    quiet_at_ = std::max(quiet_at_, elapsed());
    ++outcome_.restarts;
  }

  // -- what must hold
  void check() {
    if (joined_at_ < 0) {
      if (elapsed() > kJoinLimit) violate("not all have joined");
      return;
    }
    const auto& net = scenario_.network;
    const auto slowest = *std::max_element(net.slowness.begin(), net.slowness.end());
    const Nanos last_fault = net.faults.empty() ? 0 : net.faults.back().at;
    const Nanos quiet = std::max(quiet_at_, joined_at_ + last_fault);
    if (elapsed() < quiet + kEndLimit + slowest * kSecond) return;
    std::string text =
        "no end " + std::to_string((elapsed() - quiet) / kMillisecond) + " ms after the faults";
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      if (lives(w)) text += "; " + workers_[w]->waiting();
    }
    violate(text);
  }

  void violate(const std::string& what) {
    if (!outcome_.violation.empty()) return;
    outcome_.violation = what;
    note("VIOLATION: " + what);
  }

  // FNV-1a over all lines.
  void note(const std::string& line) {
    const std::string text = std::to_string(elapsed()) + " " + line;
    for (const char c : text) {
      outcome_.digest = (outcome_.digest ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    }
    if (trace_ == nullptr) return;
    std::fprintf(trace_, "%10.3f ms  %s\n", static_cast<double>(elapsed()) / kMillisecond,
                 line.c_str());
  }

  const StoreScenario& scenario_;
  std::FILE* trace_;
  Network network_;
  std::mt19937_64 random_;
  const Nanos start_;
  StoreLedger ledger_;
  std::vector<std::unique_ptr<StoreWorker>> workers_;
  std::vector<std::unique_ptr<StoreServer>> servers_;
  std::vector<Nanos> paused_until_;
  Nanos joined_at_ = -1;
  Nanos quiet_at_ = 0;  // everything that can heal has healed
  std::size_t next_fault_ = 0;
  std::optional<Fault> to_die_;
  int dead_ = -1, vanished_ = -1;
  std::vector<std::pair<Nanos, std::function<void()>>> heals_;
  Outcome outcome_;
};

}  // namespace

Outcome run(const StoreScenario& scenario, std::FILE* trace) {
  if (trace != nullptr) std::fprintf(trace, "%s\n", describe(scenario).c_str());
  return StoreWorld(scenario, trace).go();
}

}  // namespace syncline::sim
