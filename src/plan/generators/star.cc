#include "plan/builder.h"
#include "plan/generators.h"
#include "plan/generators/algorithms.h"
#include "plan/generators/direct_sum.h"

namespace syncline::plan {
namespace {

enum StarPhase { kVector = 0, kSum = 1 };
constexpr int kCentre = 0;

void add_centre(Builder& b, int n) {
  const LaneRef lane = b.new_lane(kCentre);
  append_direct_sum(b, lane, n, 0, message_key(kVector, 0));
  for (int rank = 1; rank < n; ++rank) b.send(lane, out(0), rank, message_key(kSum, 0));
}

// The sum may overwrite the input, which was sent before.
void add_leaf(Builder& b, int rank) {
  b.send(b.new_lane(rank), in(0), kCentre, message_key(kVector, 0));
  b.recv(b.new_lane(rank), out(0), kCentre, message_key(kSum, 0));
}

}  // namespace

bool star_supports(Collective kind, int n) {
  return kind == Collective::kAllReduce && n >= 1 && n <= kRanksMax;
}

Schedule make_star(Collective kind, int n, int root) {
  if (n == 1) return make_solo("star", kind);
  Builder b("star", kind, n, 1, root);
  add_centre(b, n);
  for (int rank = 1; rank < n; ++rank) add_leaf(b, rank);
  return b.build(true);
}

}  // namespace syncline::plan
