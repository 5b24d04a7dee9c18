// The table of schedule generators: pure functions, thread-safe. A new algorithm is one file in
// generators/ and one line in generators.cc.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "plan/hosts.h"
#include "plan/schedule.h"

namespace syncline::plan {

inline constexpr int kRanksMax = 4096;  // of a generated or parsed schedule
// Generators whose steps over all ranks grow with the square of the rank count stop here.
inline constexpr int kRanksMaxQuadratic = 512;
// all_to_all has a chunk for every pair of ranks, and chunks are counted in 16 bits.
inline constexpr int kRanksMaxAllToAll = 255;

// A schedule of two levels: how ranks of a host, and how hosts, exchange.
enum class Way : std::uint8_t;
struct Hierarchy {
  Way inner, outer;
};

// When choose() tries a generator that nobody asked for.
enum class Tried : std::uint8_t {
  kAlways,
  kOverPorts,    // where links have a bandwidth: it saves steps, which costs memory nothing
  kHierarchies,  // where a host has several ranks and there are several hosts
  kOnRequest,    // where links go through a switch, another is as fast
};

// Immutable.
struct Generator {
  const char* name;  // "ring", "hierarchical:two_shot/ring" (inside a host / across hosts)
  bool (*flat_supports)(Collective kind, int n);
  Schedule (*flat_make)(Collective kind, int n, int root);
  const Hierarchy* hierarchy;  // nullptr: flat, knows no hosts
  Tried tried;

  // Whether make() gives a right schedule for this kind and rank count; n < 1 is never supported,
  // and hierarchical schedules need to know the hosts.
  bool supports(Collective kind, int n, HostOf host_of = {}) const;
  // Precondition: supports(kind, n, host_of) and 0 <= root < n. `root` matters to rooted
  // kinds only.
  Schedule make(Collective kind, int n, int root, HostOf host_of = {}) const;
};

// All-reduce of ranks 0 .. workers - 1 through as many more ranks as there are aggregators, which
// only help: part c goes to aggregator c, who sums it in canonical order, finishes it and returns
// it to all. So a worker sends and receives its bytes once (in-network aggregation: compare Sapio
// and others, "Scaling distributed machine learning with in-network aggregation", NSDI 2021). Not
// in the table: it needs ranks that are no workers. Precondition: aggregated_supports().
inline constexpr const char* kAggregated = "aggregator";
bool aggregated_supports(int workers, int aggregators);
Schedule make_aggregated(int workers, int aggregators);

std::span<const Generator> all_generators();
// nullptr if there is none of that name.
const Generator* find_generator(std::string_view name);

// The generators that a user's word stands for: "hierarchical" for every inner with every outer
// one, else the generator of that name; empty if there is none.
std::vector<const Generator*> generators_named(std::string_view word);
// The words: names of flat generators, "hierarchical", and the pattern of the long names.
std::string known_schedules();

}  // namespace syncline::plan
