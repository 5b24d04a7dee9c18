#include <algorithm>
#include <vector>

#include "plan/builder.h"
#include "plan/canonical.h"
#include "plan/generators.h"
#include "plan/generators/algorithms.h"
#include "plan/partition.h"

namespace syncline::plan {
namespace {

enum TreePhase { kToRoot = 0, kFromRoot = 1 };

struct Family {
  int parent = -1;
  std::vector<int> children;  // in the order in which the sum takes them
};

// Follows the canonical tree: the sum of a node is held by the root if it lies within, else by the
// node's first rank. The holder of one child sends to the holder of the other. Returns the node's
// holder.
int link_node(std::vector<Family>& families, int first, int count, int root) {
  if (count == 1) return first;
  const int left = canonical_split(count);
  int to = link_node(families, first, left, root);
  int from = link_node(families, first + left, count - left, root);
  if (from == root) std::swap(to, from);
  families[static_cast<std::size_t>(from)].parent = to;
  families[static_cast<std::size_t>(to)].children.push_back(from);
  return to;
}

void add_up(Builder& b, LaneRef at, const Family& family) {
  Slice sum = in(0);
  for (const int child : family.children) {
    const bool last = child == family.children.back() && family.parent < 0;
    const Slice dst = last ? out(0) : scratch(0, 0);
    b.recv_reduce(at, dst, sum, child, message_key(kToRoot, 0));
    sum = dst;
  }
  if (family.parent >= 0) b.send(at, sum, family.parent, message_key(kToRoot, 0));
}

// Largest subtree first.
void add_down(Builder& b, LaneRef at, const Family& family, Slice result) {
  if (family.parent >= 0) b.recv(at, result, family.parent, message_key(kFromRoot, 0));
  for (auto child = family.children.rbegin(); child != family.children.rend(); ++child) {
    b.send(at, result, *child, message_key(kFromRoot, 0));
  }
}

void add_barrier(Builder& b, LaneRef at, const Family& family) {
  for (const int child : family.children) b.recv(at, scratch(0, 0), child, message_key(kToRoot, 0));
  if (family.parent >= 0) {
    b.send(at, in(0), family.parent, message_key(kToRoot, 0));
    b.recv(at, scratch(0, 0), family.parent, message_key(kFromRoot, 0));
  }
  for (auto child = family.children.rbegin(); child != family.children.rend(); ++child) {
    b.send(at, in(0), *child, message_key(kFromRoot, 0));
  }
}

}  // namespace

bool tree_supports(Collective kind, int n) { return !has_blocks(kind) && n >= 1 && n <= kRanksMax; }

Schedule make_tree(Collective kind, int n, int root) {
  if (n == 1) return make_solo("tree", kind);
  const bool rooted = kind == Collective::kBroadcast || kind == Collective::kReduce;
  std::vector<Family> families(static_cast<std::size_t>(n));
  link_node(families, 0, n, rooted ? root : 0);
  Builder b("tree", kind, n, 1, root);
  for (int rank = 0; rank < n; ++rank) {
    const Family& family = families[static_cast<std::size_t>(rank)];
    const LaneRef lane = b.new_lane(rank);
    if (kind == Collective::kBarrier) add_barrier(b, lane, family);
    if (kind == Collective::kReduce || kind == Collective::kAllReduce) add_up(b, lane, family);
    if (kind == Collective::kAllReduce) add_down(b, lane, family, out(0));
    if (kind == Collective::kBroadcast) add_down(b, lane, family, rank == root ? in(0) : out(0));
  }
  return b.build(true);
}

}  // namespace syncline::plan
