#include "plan/builder.h"
#include "plan/generators.h"
#include "plan/generators/algorithms.h"
#include "plan/partition.h"

namespace syncline::plan {
namespace {

enum RingPhase { kReducing = 0, kGathering = 1 };

// Chunk c starts at rank c + 1 and ends, finished, at its owner c. Partial sums live in one scratch
// slot: each is sent on before the next one arrives.
void add_reducing(Builder& b, LaneRef at, int n) {
  const int next = (at.rank + 1) % n;
  const int previous = (at.rank + n - 1) % n;
  b.send(at, in(previous), next, message_key(kReducing, previous));
  for (int i = 2; i <= n; ++i) {
    const int chunk = (at.rank + 2 * n - i) % n;
    const Slice dst = i == n ? out(chunk) : scratch(0, chunk);
    b.recv_reduce(at, dst, in(chunk), previous, message_key(kReducing, chunk));
    if (i < n) b.send(at, dst, next, message_key(kReducing, chunk));
  }
}

// Every chunk travels once around from its owner.
void add_gathering(Builder& b, LaneRef at, int n, Slice own) {
  const int next = (at.rank + 1) % n;
  const int previous = (at.rank + n - 1) % n;
  b.send(at, own, next, message_key(kGathering, at.rank));
  for (int i = 1; i < n; ++i) {
    const int chunk = (at.rank + n - i) % n;
    b.recv(at, out(chunk), previous, message_key(kGathering, chunk));
    if (i < n - 1) b.send(at, out(chunk), next, message_key(kGathering, chunk));
  }
}

// A chain from the root around to the rank before it; segments follow each other down the chain.
void add_broadcast(Builder& b, LaneRef at, int n, int root) {
  const int place = (at.rank + n - root) % n;
  if (place > 0) b.recv(at, out(0), (at.rank + n - 1) % n, message_key(0, 0));
  if (place < n - 1) b.send(at, place == 0 ? in(0) : out(0), (at.rank + 1) % n, message_key(0, 0));
}

// The same chain backwards.
void add_reduce(Builder& b, LaneRef at, int n, int root) {
  const int place = (at.rank + n - root) % n;
  const int next = (at.rank + 1) % n;
  const bool last = place == n - 1;
  const Slice sum = last ? in(0) : place == 0 ? out(0) : scratch(0, 0);
  if (!last) b.recv_reduce(at, sum, in(0), next, message_key(0, 0));
  if (place > 0) b.send(at, sum, (at.rank + n - 1) % n, message_key(0, 0));
}

void add_rank(Builder& b, Collective kind, int n, int rank, int root) {
  const LaneRef lane = b.new_lane(rank);
  switch (kind) {
    case Collective::kAllReduce:
      add_reducing(b, lane, n);
      add_gathering(b, lane, n, out(rank));
      break;
    case Collective::kReduceScatter:
      add_reducing(b, lane, n);
      break;
    case Collective::kAllGather:
      add_gathering(b, lane, n, in(rank));
      b.copy(b.new_lane(rank), out(rank), in(rank));
      break;
    case Collective::kBroadcast:
      add_broadcast(b, lane, n, root);
      break;
    case Collective::kReduce:
      add_reduce(b, lane, n, root);
      break;
    default:
      break;
  }
}

}  // namespace

bool ring_supports(Collective kind, int n) {
  return kind <= Collective::kReduce && n >= 1 && n <= kRanksMaxQuadratic;
}

Schedule make_ring(Collective kind, int n, int root) {
  if (n == 1) return make_solo("ring", kind);
  const bool chain = kind == Collective::kBroadcast || kind == Collective::kReduce;
  Builder b("ring", kind, n, chain ? 1 : n, root);
  for (int rank = 0; rank < n; ++rank) add_rank(b, kind, n, rank, root);
  return b.build(false);
}

}  // namespace syncline::plan
