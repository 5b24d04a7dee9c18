// What a seed stands for: the job, its network, its operations and its faults. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "syncline/types.h"

namespace syncline::sim {

struct PlannedCall {
  Collective kind = Collective::kAllReduce;
  std::size_t count = 0;  // elements of one block
  std::string schedule;
  int root = 0;
  bool in_place = false;
  ReduceOp op = ReduceOp::kSum;
};

enum class FaultKind : std::uint8_t {
  kReset,   // a and b lose the connection of a rail
  kCut,     // nothing passes between a and b on a rail, for `span`
  kHalves,  // nothing passes between ranks below `a` and the others, for `span`
  kPause,   // a stands still for `span`
  kDamage,  // bits flip on everything that a sends, for `span`
  kStalls,  // a's packets get lost and come late, for `span`
  kRepeat,  // what a says at the rendezvous arrives twice now and then, for `span`
  kCrash,   // a's process dies
  kVanish,  // a's host is gone without a word
};

struct Fault {
  Nanos at = 0;  // after the start
  FaultKind kind = FaultKind::kReset;
  int a = 0, b = 0, rail = 0;
  Nanos span = 0;
  bool restarts = false;  // kCrash: another process takes its place after `span`
};

// A process that does not belong to the job, or not beside another one.
struct Intruder {
  enum class Kind : std::uint8_t { kTwin, kOtherRun, kOtherKey };
  Kind kind = Kind::kTwin;
  int rank = 1;  // that it claims to be
  Nanos at = 0;
};

struct Scenario {
  std::uint64_t seed = 0;
  int ranks = 2;
  int rails = 1;
  int window = 1;  // calls in flight
  std::vector<PlannedCall> calls;
  std::vector<Fault> faults;  // by time
  int victim = -1;            // of a crash; -1: everybody lives
  int dissenter = -1;         // calls something else at call number `dissent`; -1: all agree
  int dissent = 0;
  Nanos latency = 0;
  Nanos jitter = 0;
  std::int64_t bytes_per_ms = 0;
  std::vector<int> slowness;  // by rank: it acts in one of so many steps
  std::vector<Nanos> starts;  // by rank
  std::optional<Intruder> intruder;
};

Scenario scenario_of(std::uint64_t seed);
// "3 ranks, 2 rails, ...": one line.
std::string describe(const Scenario& scenario);
std::string describe(const Fault& fault);

}  // namespace syncline::sim
