#include "plan/builder.h"
#include "plan/canonical.h"
#include "plan/generators.h"
#include "plan/generators/algorithms.h"
#include "plan/generators/direct_blocks.h"
#include "plan/generators/direct_sum.h"
#include "plan/partition.h"

namespace syncline::plan {
namespace {

constexpr MessageKey kPart = message_key(0, 0);

// Lane 0 sends, beginning with the next rank so that not everybody meets at rank 0; lane 1 sums.
// The result may overwrite the input, so it waits for the sends.
void add_all_reduce(Builder& b, int n, int rank) {
  const LaneRef sends = b.new_lane(rank);
  After last;
  for (int i = 1; i < n; ++i) last = b.send(sends, in(0), (rank + i) % n, kPart);
  const LaneRef sums = b.new_lane(rank);
  append_direct_sum(b, sums, n, 0, kPart);
  b.wait_for(sums, last);
}

// The chunk sent to a rank is the one that it owns.
void add_reduce_scatter(Builder& b, int n, int rank) {
  const LaneRef sends = b.new_lane(rank);
  for (int i = 1; i < n; ++i) b.send(sends, in((rank + i) % n), (rank + i) % n, kPart);
  append_direct_sum(b, b.new_lane(rank), n, rank, kPart);
}

void add_all_gather(Builder& b, int n, int rank) {
  const LaneRef sends = b.new_lane(rank);
  for (int i = 1; i < n; ++i) b.send(sends, in(rank), (rank + i) % n, kPart);
  const LaneRef receives = b.new_lane(rank);
  for (int i = 1; i < n; ++i) {
    const int from = (rank + n - i) % n;
    b.recv(receives, out(from), from, kPart);
  }
  b.copy(b.new_lane(rank), out(rank), in(rank));
}

void add_broadcast(Builder& b, int n, int rank, int root) {
  const LaneRef lane = b.new_lane(rank);
  if (rank != root) {
    b.recv(lane, out(0), root, kPart);
    return;
  }
  for (int i = 1; i < n; ++i) b.send(lane, in(0), (root + i) % n, kPart);
}

void add_reduce(Builder& b, int n, int rank, int root) {
  const LaneRef lane = b.new_lane(rank);
  if (rank == root) {
    append_direct_sum(b, lane, n, 0, kPart);
  } else {
    b.send(lane, in(0), root, kPart);
  }
}

void add_barrier(Builder& b, int n, int rank) {
  const LaneRef sends = b.new_lane(rank);
  const LaneRef receives = b.new_lane(rank);
  for (int i = 1; i < n; ++i) {
    b.send(sends, in(0), (rank + i) % n, kPart);
    b.recv(receives, scratch(0, 0), (rank + n - i) % n, kPart);
  }
}

}  // namespace

bool one_shot_supports(Collective kind, int n) {
  return n >= 1 && n <= (kind == Collective::kAllToAll ? kRanksMaxAllToAll : kRanksMaxQuadratic);
}

Schedule make_one_shot(Collective kind, int n, int root) {
  if (n == 1) return make_solo("one_shot", kind);
  Builder b("one_shot", kind, n, block_count(kind, n), root);
  for (int rank = 0; rank < n; ++rank) {
    switch (kind) {
      case Collective::kAllReduce:
        add_all_reduce(b, n, rank);
        break;
      case Collective::kReduceScatter:
        add_reduce_scatter(b, n, rank);
        break;
      case Collective::kAllGather:
        add_all_gather(b, n, rank);
        break;
      case Collective::kBroadcast:
        add_broadcast(b, n, rank, root);
        break;
      case Collective::kReduce:
        add_reduce(b, n, rank, root);
        break;
      case Collective::kBarrier:
        add_barrier(b, n, rank);
        break;
      case Collective::kGather:
        add_direct_gather(b, n, rank, root);
        break;
      case Collective::kScatter:
        add_direct_scatter(b, n, rank, root);
        break;
      case Collective::kAllToAll:
        add_direct_all_to_all(b, n, rank);
        break;
    }
  }
  return b.build(true);
}

}  // namespace syncline::plan
