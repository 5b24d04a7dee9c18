#include "plan/builder.h"
#include "plan/generators.h"
#include "plan/generators/algorithms.h"
#include "plan/generators/direct_sum.h"

namespace syncline::plan {
namespace {

enum TwoShotPhase { kParts = 0, kResults = 1 };

// Three lanes, so that none waits for another's messages: parts to their owners; the own part
// summed and returned; the other parts' results. A result may overwrite the input of its part: that
// input was sent before, for the owner could not have finished without it.
void add_rank(Builder& b, int n, int rank) {
  const LaneRef parts = b.new_lane(rank);
  const LaneRef owned = b.new_lane(rank);
  const LaneRef results = b.new_lane(rank);
  append_direct_sum(b, owned, n, rank, message_key(kParts, rank));
  for (int i = 1; i < n; ++i) {
    const int to = (rank + i) % n;
    const int from = (rank + n - i) % n;
    const After part = b.send(parts, in(to), to, message_key(kParts, to));
    b.send(owned, out(rank), to, message_key(kResults, rank));
    b.wait_for(owned, part);
    b.recv(results, out(from), from, message_key(kResults, from));
  }
}

}  // namespace

bool two_shot_supports(Collective kind, int n) {
  return kind == Collective::kAllReduce && n >= 1 && n <= kRanksMaxQuadratic;
}

Schedule make_two_shot(Collective kind, int n, int root) {
  if (n == 1) return make_solo("two_shot", kind);
  Builder b("two_shot", kind, n, n, root);
  for (int rank = 0; rank < n; ++rank) add_rank(b, n, rank);
  return b.build(true);
}

}  // namespace syncline::plan
