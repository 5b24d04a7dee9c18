#include <numeric>

#include "plan/builder.h"
#include "plan/generators.h"
#include "plan/generators/algorithms.h"
#include "plan/generators/pieces.h"
#include "plan/partition.h"

namespace syncline::plan {
namespace {

enum TwoWayPhase { kInto = 0, kOutOf = 1 };

std::vector<int> everyone(int n) {
  std::vector<int> ranks(static_cast<std::size_t>(n));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// From both sides of the ring to the owner, at once: the side that comes with +1 is the longer one.
Route meeting_route(int n, int owner) {
  Route route = chain_route(n, owner, 1);
  const int longer = n / 2;
  for (int i = 1; i < n; ++i) {
    const auto member = static_cast<std::size_t>((owner + n - i) % n);  // i hops before the owner
    const bool forward = i <= longer;
    const int hops = forward ? i : n - i;
    const int side = forward ? longer : n - 1 - longer;
    route.parent[member] = (owner + n - i + (forward ? 1 : n - 1)) % n;
    route.round[member] = side - hops;
  }
  return route;
}

// Both sides' last hops are free to fall into different rounds; so is the first hop outwards.
Route parting_route(int n, int owner) {
  Route route = meeting_route(n, owner);
  for (int i = 1; i < n; ++i) {
    const auto member = static_cast<std::size_t>((owner + n - i) % n);
    route.round[member] = (i <= n / 2 ? i : n - i) - 1;
  }
  return route;
}

void copy_own_blocks(Builder& b, int n, int chunks_per_rank) {
  for (int rank = 0; rank < n; ++rank) {
    const LaneRef lane = b.new_lane(rank);
    for (int i = 0; i < chunks_per_rank; ++i) {
      const int chunk = rank * chunks_per_rank + i;
      b.copy(lane, out(chunk), in(chunk));
    }
  }
}

bool two_way_supports(Collective kind, int n) {
  const bool has_kind = kind == Collective::kAllReduce || kind == Collective::kReduceScatter ||
                        kind == Collective::kAllGather;
  return has_kind && n >= 1 && n <= kRanksMaxQuadratic;
}

}  // namespace

bool ring_bidirectional_supports(Collective kind, int n) { return two_way_supports(kind, n); }

Schedule make_ring_bidirectional(Collective kind, int n, int root) {
  if (n == 1) return make_solo("ring_bidirectional", kind);
  Builder b("ring_bidirectional", kind, n, 2 * n, root);
  // Of two ranks both directions have the same neighbour, and messages to it leave in one order.
  Pieces pieces(b, n, 2 * n, n == 2 ? 1 : 2);
  const std::vector<int> members = everyone(n);
  for (const int phase : {kInto, kOutOf}) {
    if (kind == (phase == kInto ? Collective::kAllGather : Collective::kReduceScatter)) continue;
    for (int chunk = 0; chunk < 2 * n; ++chunk) {
      const int step = chunk % 2 == 0 ? 1 : -1;
      pieces.set_phase(phase, n == 2 ? 0 : chunk % 2);
      if (phase == kInto) {
        pieces.combine(chunk, members, chain_route(n, chunk / 2, step), true);
      } else {
        pieces.spread(chunk, members, chain_from(n, chunk / 2, step));
      }
    }
  }
  pieces.write();
  if (kind == Collective::kAllGather) copy_own_blocks(b, n, 2);
  return b.build(false);
}

bool ring_meet_supports(Collective kind, int n) { return two_way_supports(kind, n); }

Schedule make_ring_meet(Collective kind, int n, int root) {
  if (n == 1) return make_solo("ring_meet", kind);
  Builder b("ring_meet", kind, n, n, root);
  Pieces pieces(b, n, n, 1);
  const std::vector<int> members = everyone(n);
  pieces.set_phase(kInto, 0);
  for (int chunk = 0; chunk < n && kind != Collective::kAllGather; ++chunk) {
    pieces.combine(chunk, members, meeting_route(n, chunk), true);
  }
  pieces.set_phase(kOutOf, 0);
  for (int chunk = 0; chunk < n && kind != Collective::kReduceScatter; ++chunk) {
    pieces.spread(chunk, members, parting_route(n, chunk));
  }
  pieces.write();
  if (kind == Collective::kAllGather) copy_own_blocks(b, n, 1);
  return b.build(false);
}

}  // namespace syncline::plan
