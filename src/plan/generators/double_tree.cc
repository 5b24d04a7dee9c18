#include <numeric>

#include "plan/builder.h"
#include "plan/generators.h"
#include "plan/generators/algorithms.h"
#include "plan/generators/pieces.h"

namespace syncline::plan {
namespace {

enum DoubleTreePhase { kUpwards = 0, kDownwards = 1 };

// In-order binary tree over 1 .. n-1, whose heights are those of the lowest set bits, below place
// 0: odd places are leaves, and no place has more than two children.
Route in_order_route(int n) {
  Route route;
  route.parent.assign(static_cast<std::size_t>(n), -1);
  route.round.assign(static_cast<std::size_t>(n), 0);
  for (int place = 1; place < n; ++place) {
    const int bit = place & -place;
    const int upper = (place ^ bit) | bit << 1;
    // Where the regular parent lies beyond the last place, the one below takes its child; of the
    // topmost place that is 0.
    route.parent[static_cast<std::size_t>(place)] = upper < n ? upper : place ^ bit;
    while ((1 << route.round[static_cast<std::size_t>(place)]) < bit) {
      ++route.round[static_cast<std::size_t>(place)];
    }
  }
  return route;
}

// The ranks in the order of their places in a tree: the second one is mirrored (n even) or shifted
// by one (n odd), so that who has children in one tree has none in the other (but for one rank).
std::vector<int> placed_ranks(int n, int tree) {
  std::vector<int> ranks(static_cast<std::size_t>(n));
  std::iota(ranks.begin(), ranks.end(), 0);
  if (tree == 0) return ranks;
  for (int& rank : ranks) rank = n % 2 == 0 ? n - 1 - rank : (rank + 1) % n;
  return ranks;
}

}  // namespace

bool double_tree_supports(Collective kind, int n) {
  return kind == Collective::kAllReduce && n >= 1 && n <= kRanksMax;
}

Schedule make_double_tree(Collective kind, int n, int root) {
  if (n == 1) return make_solo("double_tree", kind);
  Builder b("double_tree", kind, n, 2, root);
  Pieces pieces(b, n, 2, 2);
  const Route route = in_order_route(n);
  pieces.set_phase(kUpwards, 0);
  for (const int tree : {0, 1}) pieces.combine(tree, placed_ranks(n, tree), route, true);
  pieces.set_phase(kDownwards, 1);
  for (const int tree : {0, 1}) pieces.spread(tree, placed_ranks(n, tree), reversed(route));
  pieces.write();
  return b.build(false);
}

}  // namespace syncline::plan
