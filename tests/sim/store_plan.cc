#include "tests/sim/store_plan.h"

#include <algorithm>
#include <random>

namespace syncline::sim {
namespace {

class StoreDice {
 public:
  explicit StoreDice(std::uint64_t seed) : random_(seed * 0x9e3779b97f4a7c15u + 77) {}
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  Nanos span(Nanos least, Nanos most) {
    return least + static_cast<Nanos>(below(static_cast<std::uint64_t>(most - least + 1)));
  }

 private:
  std::mt19937_64 random_;
};

ps::KeyDescription random_key(StoreDice& dice, std::uint32_t number, int servers) {
  ps::KeyDescription key;
  key.name = "k" + std::to_string(number);
  key.key = number;
  const std::size_t slices = 1 + dice.below(3);
  for (std::size_t i = 0; i < slices; ++i) {
    // Inline, apart but eager, and announced.
    const std::uint64_t most[] = {20, 2000, 6000, 12'000};
    const std::size_t count = 1 + dice.below(most[dice.below(4)]);
    const int server = static_cast<int>(dice.below(static_cast<std::uint64_t>(servers)));
    key.slices.push_back({static_cast<std::size_t>(key.count), count, server});
    key.count += count;
  }
  return key;
}

Fault random_store_fault(StoreDice& dice, int ranks) {
  static constexpr FaultKind kKinds[] = {FaultKind::kReset, FaultKind::kCut,    FaultKind::kCut,
                                         FaultKind::kPause, FaultKind::kDamage, FaultKind::kStalls};
  const auto all = static_cast<std::uint64_t>(ranks);
  Fault fault;
  fault.at = dice.span(0, 400 * kMillisecond);
  fault.kind = kKinds[dice.below(6)];
  fault.a = static_cast<int>(dice.below(all));
  fault.b = static_cast<int>((static_cast<std::uint64_t>(fault.a) + 1 + dice.below(all - 1)) % all);
  fault.span = dice.span(5 * kMillisecond, dice.one_in(4) ? kSecond : 200 * kMillisecond);
  return fault;
}

void add_store_death(StoreDice& dice, StoreScenario& scenario) {
  Fault fault;
  fault.kind = dice.one_in(4) ? FaultKind::kVanish : FaultKind::kCrash;
  fault.a = static_cast<int>(dice.below(static_cast<std::uint64_t>(scenario.workers)));
  fault.at = dice.span(0, 150 * kMillisecond);
  scenario.network.victim = fault.a;
  scenario.network.faults.push_back(fault);
}

void lay_network(StoreDice& dice, Scenario& network) {
  network.latency = dice.span(10 * kMicrosecond, kMillisecond);
  network.jitter = dice.one_in(2) ? dice.span(0, kMillisecond) : 0;
  network.bytes_per_ms = dice.one_in(2) ? 125'000 : 0;  // 1 Gbit/s
  for (int rank = 0; rank < network.ranks; ++rank) {
    network.slowness.push_back(dice.one_in(4) ? 1 + static_cast<int>(dice.below(8)) : 1);
    network.starts.push_back(dice.one_in(2) ? 0 : dice.span(0, 20 * kMillisecond));
  }
  const std::uint64_t faults = dice.one_in(3) ? 0 : dice.below(6);
  for (std::uint64_t i = 0; i < faults; ++i) {
    network.faults.push_back(random_store_fault(dice, network.ranks));
  }
}

// Hosts whose sums are canonical sums. Their first workers live: those that they sum for die with
// them. Not of all seeds, so that those that have found something stay what they were.
void lay_hosts(std::uint64_t seed, StoreScenario& scenario) {
  StoreDice dice(~seed);
  if (!scenario.is_bulk() || scenario.workers < 2 || seed % 5 == 0 || seed % 5 == 2) return;
  const bool one_host = dice.one_in(4);
  for (int worker = 0; worker < scenario.workers; ++worker) {
    scenario.hosts.push_back(one_host ? 0 : worker / 2);
  }
  const int victim = scenario.network.victim;
  if (victim >= 0 && scenario.leads(victim)) scenario.hosts.clear();
}

}  // namespace

int StoreScenario::leader_of(int worker) const {
  if (hosts.empty()) return worker;
  const auto own = std::find(hosts.begin(), hosts.end(), hosts[static_cast<std::size_t>(worker)]);
  return static_cast<int>(own - hosts.begin());
}

bool StoreScenario::leads(int worker) const {
  for (int other = 0; other < workers; ++other) {
    if (other != worker && leader_of(other) == worker) return true;
  }
  return false;
}

StoreScenario store_scenario_of(std::uint64_t seed) {
  StoreDice dice(seed);
  StoreScenario scenario;
  scenario.network.seed = seed;
  scenario.workers = 1 + static_cast<int>(dice.below(4));
  scenario.servers = 1 + static_cast<int>(dice.below(3));
  scenario.network.ranks = scenario.workers + scenario.servers;
  const std::uint64_t mode = dice.below(7);
  scenario.bound = mode < 3 ? 0 : mode < 6 ? 1 + dice.below(3) : ps::kUnbounded;
  scenario.optimizer = dice.one_in(2);
  scenario.uniform = dice.one_in(3);
  lay_network(dice, scenario.network);
  const auto dense = static_cast<std::uint32_t>(1 + dice.below(3));
  for (std::uint32_t i = 0; i < dense; ++i) {
    scenario.keys.push_back(random_key(dice, i + 1, scenario.servers));
  }
  ps::KeyDescription table;
  table.name = "rows";
  table.key = dense + 1;
  table.table = true;
  table.count = 1 + dice.below(3);
  table.rows_max = kTableRows;
  scenario.keys.push_back(table);
  for (int w = 0; w < scenario.workers; ++w) {
    scenario.clocks.push_back(dice.one_in(4) ? 1 + dice.below(5) : 5);
    scenario.delays.push_back(dice.one_in(3) ? dice.span(0, 100 * kMillisecond) : 0);
  }
  if (scenario.workers > 1 && dice.one_in(3)) add_store_death(dice, scenario);
  scenario.norms = scenario.is_bulk() && scenario.optimizer && dice.one_in(2);
  lay_hosts(seed, scenario);
  std::sort(scenario.network.faults.begin(), scenario.network.faults.end(),
            [](const Fault& x, const Fault& y) { return x.at < y.at; });
  return scenario;
}

std::string describe(const StoreScenario& scenario) {
  const std::string rules = scenario.is_bulk() ? "bulk synchronous"
                            : scenario.bound == ps::kUnbounded
                                ? "asynchronous"
                                : "bound " + std::to_string(scenario.bound);
  return "seed " + std::to_string(scenario.network.seed) + ": " + std::to_string(scenario.workers) +
         " workers, " + (scenario.hosts.empty() ? "" : "summed by host, ") +
         std::to_string(scenario.servers) + " servers, " + rules +
         (scenario.norms       ? " with norms and"
          : scenario.optimizer ? " with"
                               : " without") +
         " an optimiser, " + std::to_string(scenario.keys.size() - 1) + " keys and a table, " +
         std::to_string(scenario.network.faults.size()) + " faults";
}

}  // namespace syncline::sim
