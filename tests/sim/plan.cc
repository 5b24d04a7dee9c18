#include "tests/sim/plan.h"

#include <algorithm>
#include <random>

#include "tests/harness/schedules.h"

namespace syncline::sim {
namespace {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed * 0x9e3779b97f4a7c15u + 1) {}
  int below(int bound) { return static_cast<int>(random_() % static_cast<unsigned>(bound)); }
  bool one_in(int n) { return below(n) == 0; }
  Nanos span(Nanos least, Nanos most) {
    return least + static_cast<Nanos>(random_() % static_cast<std::uint64_t>(most - least + 1));
  }
  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[static_cast<std::size_t>(below(static_cast<int>(from.size())))];
  }

 private:
  std::mt19937_64 random_;
};

PlannedCall random_call(Dice& dice, int ranks) {
  static const std::vector<Collective> kinds = {Collective::kAllReduce, Collective::kAllReduce,
                                                Collective::kAllReduce, Collective::kReduceScatter,
                                                Collective::kAllGather, Collective::kBroadcast,
                                                Collective::kReduce,    Collective::kBarrier};
  static const std::vector<std::size_t> counts = {0, 1, 7, 100, 1000, 1000, 5000, 20'000, 70'000};
  PlannedCall call;
  call.kind = dice.pick(kinds);
  call.count = call.kind == Collective::kBarrier ? 0 : dice.pick(counts);
  call.root = dice.below(ranks);
  call.in_place = dice.one_in(3);
  if (call.kind != Collective::kBarrier && !dice.one_in(3)) {
    call.schedule = dice.pick(harness::schedules_for(call.kind, ranks));
  }
  return call;
}

// Half of them while ranks join, which takes some round trips after the last one's start.
Nanos fault_time(Dice& dice, const Scenario& scenario, Nanos least) {
  const Nanos last = *std::max_element(scenario.starts.begin(), scenario.starts.end());
  const Nanos joined = std::max(least, last + 25 * scenario.latency + 10 * kMillisecond);
  if (dice.one_in(2)) return dice.span(least, joined);
  return dice.span(least, joined + 400 * kMillisecond);
}

Fault random_fault(Dice& dice, const Scenario& scenario) {
  static const std::vector<FaultKind> kinds = {
      FaultKind::kReset,  FaultKind::kReset,  FaultKind::kReset, FaultKind::kCut,
      FaultKind::kCut,    FaultKind::kHalves, FaultKind::kPause, FaultKind::kDamage,
      FaultKind::kDamage, FaultKind::kStalls, FaultKind::kRepeat};
  Fault fault;
  fault.at = fault_time(dice, scenario, 0);
  fault.kind = dice.pick(kinds);
  fault.a = dice.below(scenario.ranks);
  fault.b = (fault.a + 1 + dice.below(scenario.ranks - 1)) % scenario.ranks;
  fault.rail = dice.below(scenario.rails);
  fault.span = dice.span(5 * kMillisecond, dice.one_in(4) ? 3 * kSecond : 300 * kMillisecond);
  if (fault.kind == FaultKind::kHalves) fault.a = 1 + dice.below(scenario.ranks - 1);
  return fault;
}

void add_death(Dice& dice, Scenario& scenario) {
  Fault fault;
  fault.kind = dice.one_in(3) ? FaultKind::kVanish : FaultKind::kCrash;
  fault.a = scenario.victim = dice.below(scenario.ranks);
  fault.at = fault_time(dice, scenario, scenario.starts[static_cast<std::size_t>(fault.a)]);
  fault.restarts = fault.kind == FaultKind::kCrash && dice.one_in(2);
  fault.span = dice.span(0, 300 * kMillisecond);
  scenario.faults.push_back(fault);
}

void add_intruder(Dice& dice, Scenario& scenario) {
  static const std::vector<Intruder::Kind> kinds = {Intruder::Kind::kTwin, Intruder::Kind::kTwin,
                                                    Intruder::Kind::kOtherRun,
                                                    Intruder::Kind::kOtherKey};
  Intruder intruder;
  intruder.kind = dice.pick(kinds);
  intruder.rank = 1 + dice.below(scenario.ranks - 1);
  intruder.at = fault_time(dice, scenario, 0);
  scenario.intruder = intruder;
}

}  // namespace

Scenario scenario_of(std::uint64_t seed) {
  Dice dice(seed);
  Scenario scenario;
  scenario.seed = seed;
  scenario.ranks = 2 + dice.below(3);
  scenario.rails = dice.one_in(3) ? 2 : 1;
  scenario.window = 1 + dice.below(3);
  scenario.latency = dice.span(10 * kMicrosecond, 2 * kMillisecond);
  scenario.jitter = dice.one_in(2) ? dice.span(0, 2 * kMillisecond) : 0;
  scenario.bytes_per_ms = dice.one_in(2) ? 125'000 : 0;  // 1 Gbit/s
  for (int rank = 0; rank < scenario.ranks; ++rank) {
    scenario.slowness.push_back(dice.one_in(4) ? 1 + dice.below(8) : 1);
  }
  const Nanos spread = dice.one_in(4) ? kSecond : 100 * kMillisecond;
  for (int rank = 0; rank < scenario.ranks; ++rank) {
    scenario.starts.push_back(dice.one_in(3) ? 0 : dice.span(0, spread));
  }
  const int calls = 5 + dice.below(20);
  for (int i = 0; i < calls; ++i) scenario.calls.push_back(random_call(dice, scenario.ranks));
  const int faults = dice.below(8);
  for (int i = 0; i < faults; ++i) scenario.faults.push_back(random_fault(dice, scenario));
  if (dice.one_in(4)) {
    add_death(dice, scenario);
  } else if (dice.one_in(5)) {
    add_intruder(dice, scenario);
  } else if (dice.one_in(6)) {
    scenario.dissenter = dice.below(scenario.ranks);
    scenario.dissent = dice.below(calls);
  }
  std::sort(scenario.faults.begin(), scenario.faults.end(),
            [](const Fault& x, const Fault& y) { return x.at < y.at; });
  return scenario;
}

std::string describe(const Scenario& scenario) {
  std::string text = "seed " + std::to_string(scenario.seed) + ": " +
                     std::to_string(scenario.ranks) + " ranks, " + std::to_string(scenario.rails) +
                     " rails, " + std::to_string(scenario.calls.size()) + " calls, " +
                     std::to_string(scenario.window) + " in flight, " +
                     std::to_string(scenario.faults.size()) + " faults";
  if (scenario.dissenter >= 0) {
    text += ", rank " + std::to_string(scenario.dissenter) + " disagrees at call " +
            std::to_string(scenario.dissent);
  }
  if (scenario.intruder) {
    const bool twin = scenario.intruder->kind == Intruder::Kind::kTwin;
    const bool other_run = scenario.intruder->kind == Intruder::Kind::kOtherRun;
    text += ", a " +
            std::string(twin        ? "second"
                        : other_run ? "stray"
                                    : "foreign") +
            " rank " + std::to_string(scenario.intruder->rank);
  }
  return text;
}

std::string describe(const Fault& fault) {
  const auto number = [](auto value) { return std::to_string(value); };
  const std::string span = " for " + number(fault.span / kMillisecond) + " ms";
  const std::string pair =
      number(fault.a) + " and " + number(fault.b) + " on rail " + number(fault.rail);
  switch (fault.kind) {
    case FaultKind::kReset:
      return "reset between " + pair;
    case FaultKind::kCut:
      return "cut between " + pair + span;
    case FaultKind::kHalves:
      return "partition before rank " + number(fault.a) + span;
    case FaultKind::kPause:
      return "rank " + number(fault.a) + " stands still" + span;
    case FaultKind::kDamage:
      return "bits flip on what " + number(fault.a) + " sends" + span;
    case FaultKind::kStalls:
      return "packets of " + number(fault.a) + " get lost" + span;
    case FaultKind::kRepeat:
      return "what " + number(fault.a) + " says at the rendezvous arrives twice" + span;
    case FaultKind::kCrash:
      return "rank " + number(fault.a) + " dies" + (fault.restarts ? ", another follows" : "");
    case FaultKind::kVanish:
      return "host of rank " + number(fault.a) + " vanishes";
  }
  return "?";
}

}  // namespace syncline::sim
