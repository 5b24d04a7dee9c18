// The closed formulas of generators that move every chunk in a way of its own. Pure, thread-safe;
// for formulas.cc.
#pragma once

#include "plan/formulas.h"
#include "plan/generators.h"

namespace syncline::plan {

Traffic ring_bidirectional_traffic(Collective kind, int n, int rank, std::size_t count);
Traffic ring_meet_traffic(Collective kind, int n, int rank, std::size_t count);
Traffic double_tree_traffic(int n, int rank, std::size_t count);
Traffic hierarchical_traffic(const Hierarchy& ways, Collective kind, int root, int rank,
                             std::size_t count, HostOf host_of);

}  // namespace syncline::plan
