#include "collective/reproducible.h"

#include "plan/checker.h"
#include "plan/generators.h"

namespace syncline::collective {
namespace {

// Of the flat ones: the hierarchical ones are many.
std::string names_that_claim(Collective kind, int ranks, int root) {
  std::string names;
  for (const plan::Generator& generator : plan::all_generators()) {
    if (generator.hierarchy != nullptr || !generator.supports(kind, ranks)) continue;
    if (!generator.make(kind, ranks, root).canonical_sum) continue;
    names += (names.empty() ? "" : ", ") + std::string(generator.name);
  }
  return names;
}

}  // namespace

Status admit_reproducible(const std::string& name, Collective kind, int ranks, int root,
                          plan::HostOf host_of) {
  const plan::Schedule schedule = plan::find_generator(name)->make(kind, ranks, root, host_of);
  const Status proof = plan::check_canonical(schedule);
  if (proof.ok() && schedule.canonical_sum) return {};
  const std::string why =
      proof.ok() ? "it promises no order that holds for every number of ranks" : proof.message();
  return Status(proof.code() == Code::kUnsupported ? Code::kUnsupported : Code::kInvalidArgument,
                "schedule '" + name + "' is not admitted to a reproducible " + to_string(kind) +
                    ": " + why + "; leave the choice to the planner, take one of " +
                    names_that_claim(kind, ranks, root) +
                    ", or drop 'reproducible' (SessionOptions, SYNCLINE_REPRODUCIBLE, "
                    "--reproducible)");
}

}  // namespace syncline::collective
