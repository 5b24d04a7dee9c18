#include "plan/generators.h"

#include "plan/generators/algorithms.h"

namespace syncline::plan {

// In the order in which choose() prefers equals.
std::span<const Generator> all_generators() {
  static constexpr Generator kTable[] = {
      {"one_shot", one_shot_supports, make_one_shot},
      {"two_shot", two_shot_supports, make_two_shot},
      {"ring", ring_supports, make_ring},
      {"tree", tree_supports, make_tree},
      {"halving_doubling", halving_doubling_supports, make_halving_doubling},
  };
  return kTable;
}

const Generator* find_generator(std::string_view name) {
  for (const Generator& generator : all_generators()) {
    if (name == generator.name) return &generator;
  }
  return nullptr;
}

}  // namespace syncline::plan
