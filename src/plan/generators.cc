#include "plan/generators.h"

#include <deque>
#include <iterator>
#include <string>

#include "plan/generators/algorithms.h"
#include "plan/generators/hierarchical.h"

namespace syncline::plan {
namespace {

constexpr std::string_view kHierarchical = "hierarchical";

// In the order in which choose() prefers equals.
constexpr Generator kFlat[] = {
    {"one_shot", one_shot_supports, make_one_shot, nullptr, Tried::kAlways},
    {"two_shot", two_shot_supports, make_two_shot, nullptr, Tried::kAlways},
    {"ring", ring_supports, make_ring, nullptr, Tried::kAlways},
    {"tree", tree_supports, make_tree, nullptr, Tried::kAlways},
    {"halving_doubling", halving_doubling_supports, make_halving_doubling, nullptr, Tried::kAlways},
    {"ring_bidirectional", ring_bidirectional_supports, make_ring_bidirectional, nullptr,
     Tried::kOnRequest},
    {"ring_meet", ring_meet_supports, make_ring_meet, nullptr, Tried::kOverPorts},
    {"double_tree", double_tree_supports, make_double_tree, nullptr, Tried::kAlways},
    {"star", star_supports, make_star, nullptr, Tried::kOnRequest},
};

// Straight ways inside a host, whose latency is small, and across hosts one for small messages and
// two that save bytes: to try all 25 would multiply the time of planning.
Tried tried(const Hierarchy& h) {
  const bool inside = h.inner == Way::kOneShot || h.inner == Way::kTwoShot;
  const bool across =
      h.outer == Way::kOneShot || h.outer == Way::kTwoShot || h.outer == Way::kHalvingDoubling;
  return inside && across ? Tried::kHierarchies : Tried::kOnRequest;
}

struct Table {
  std::vector<Generator> generators{std::begin(kFlat), std::end(kFlat)};
  std::deque<std::string> names;      // stay where they are
  std::deque<Hierarchy> hierarchies;  // likewise

  Table() {
    for (std::size_t inner = 0; inner < kWayNames.size(); ++inner) {
      for (std::size_t outer = 0; outer < kWayNames.size(); ++outer) {
        names.push_back(std::string(kHierarchical) + ":" + kWayNames[inner] + "/" +
                        kWayNames[outer]);
        hierarchies.push_back({static_cast<Way>(inner), static_cast<Way>(outer)});
        generators.push_back({names.back().c_str(), nullptr, nullptr, &hierarchies.back(),
                              tried(hierarchies.back())});
      }
    }
  }
};

}  // namespace

bool Generator::supports(Collective kind, int n, HostOf host_of) const {
  return hierarchy == nullptr ? flat_supports(kind, n) : hierarchical_supports(kind, n, host_of);
}

Schedule Generator::make(Collective kind, int n, int root, HostOf host_of) const {
  if (hierarchy == nullptr) return flat_make(kind, n, root);
  return make_hierarchical(name, hierarchy->inner, hierarchy->outer, kind, n, root, host_of);
}

std::span<const Generator> all_generators() {
  static const Table table;
  return table.generators;
}

const Generator* find_generator(std::string_view name) {
  for (const Generator& generator : all_generators()) {
    if (name == generator.name) return &generator;
  }
  return nullptr;
}

std::vector<const Generator*> generators_named(std::string_view word) {
  std::vector<const Generator*> found;
  for (const Generator& generator : all_generators()) {
    if (word == generator.name || (word == kHierarchical && generator.hierarchy != nullptr)) {
      found.push_back(&generator);
    }
  }
  return found;
}

std::string known_schedules() {
  std::string words;
  for (const Generator& generator : kFlat) words += generator.name + std::string(", ");
  return words +
         "hierarchical, hierarchical:INNER/OUTER with two of ring, one_shot, two_shot, tree, "
         "halving_doubling; aggregator in jobs with servers or aggregators";
}

}  // namespace syncline::plan
