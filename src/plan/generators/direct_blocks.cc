#include "plan/generators/direct_blocks.h"

namespace syncline::plan {
namespace {

constexpr MessageKey kBlock = message_key(0, 0);

}  // namespace

void add_direct_gather(Builder& b, int n, int rank, int root) {
  const LaneRef lane = b.new_lane(rank);
  if (rank != root) {
    b.send(lane, in(rank), root, kBlock);
    return;
  }
  for (int i = 1; i < n; ++i) {
    const int from = (root + i) % n;
    b.recv(lane, out(from), from, kBlock);
  }
  b.copy(b.new_lane(rank), out(rank), in(rank));
}

void add_direct_scatter(Builder& b, int n, int rank, int root) {
  const LaneRef lane = b.new_lane(rank);
  if (rank != root) {
    b.recv(lane, out(rank), root, kBlock);
    return;
  }
  for (int i = 1; i < n; ++i) {
    const int to = (root + i) % n;
    b.send(lane, in(to), to, kBlock);
  }
  b.copy(b.new_lane(rank), out(rank), in(rank));
}

void add_direct_all_to_all(Builder& b, int n, int rank) {
  const LaneRef sends = b.new_lane(rank);
  const LaneRef receives = b.new_lane(rank);
  for (int i = 1; i < n; ++i) {
    const int to = (rank + i) % n;
    const int from = (rank + n - i) % n;
    b.send(sends, in(rank * n + to), to, kBlock);
    b.recv(receives, out(from * n + rank), from, kBlock);
  }
  b.copy(b.new_lane(rank), out(rank * n + rank), in(rank * n + rank));
}

}  // namespace syncline::plan
