// Which cases are run: the full product, or few that cover all pairs.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "tests/conformance/case.h"

namespace syncline::conformance {

// Schedules that support the collective over so many ranks, and "", the planner's choice.
std::vector<std::string> schedules_for(Collective kind, int ranks);

// 0, 1, 7 and sizes around the rank count.
std::vector<std::size_t> small_counts(int ranks);

// Every type x operation x schedule x small count x (in place, out of place); roots take turns.
void for_each_small(Collective kind, int ranks, const std::function<void(const Case&)>& visit);

// Every type x schedule, each with a few operations that take turns; the counts are left to the
// caller, `turn` counts the cases.
void for_each_large(Collective kind, int ranks,
                    const std::function<void(Case, std::size_t turn)>& visit);

// Few cases in which every pair of values of two factors occurs at least once; the factors are
// type, operation, schedule, size and placement. `count` is an index into `sizes` values.
std::vector<Case> pairwise(Collective kind, int ranks, std::size_t sizes);

}  // namespace syncline::conformance
