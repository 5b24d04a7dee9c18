#include "tests/harness/schedules.h"

#include "plan/generators.h"

namespace syncline::harness {

std::vector<std::string> schedules_for(Collective kind, int ranks) {
  std::vector<std::string> names;
  for (const plan::Generator& generator : plan::all_generators()) {
    if (generator.supports(kind, ranks)) names.emplace_back(generator.name);
  }
  return names;
}

std::vector<std::string> canonical_schedules(Collective kind, int ranks) {
  std::vector<std::string> names;
  for (const std::string& name : schedules_for(kind, ranks)) {
    if (plan::find_generator(name)->make(kind, ranks, 0).canonical_sum) names.push_back(name);
  }
  return names;
}

}  // namespace syncline::harness
