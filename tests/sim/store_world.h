// StoreWorld: one simulated job with a key-value store from start to end.
#pragma once

#include "tests/sim/store_plan.h"
#include "tests/sim/world.h"

namespace syncline::sim {

// Of the outcome: calls_done are pulls that were checked, calls_failed late pushes that were
// refused, restarts workers that died.
Outcome run(const StoreScenario& scenario, std::FILE* trace = nullptr);

}  // namespace syncline::sim
