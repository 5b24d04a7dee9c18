#include "plan/formulas.h"

#include <string>

#include "plan/canonical.h"
#include "plan/formulas_pieces.h"
#include "plan/generators.h"
#include "plan/partition.h"

namespace syncline::plan {
namespace {

using Count = std::uint64_t;

struct Shape {
  Collective kind;
  int n, root, rank;
  std::size_t count;
  Count others() const { return static_cast<Count>(n - 1); }
  // Elements of one block where there are n * n.
  Count pair() const { return count / (static_cast<Count>(n) * static_cast<Count>(n)); }
  // Elements of the chunk of a rank (modulo n) where there is one chunk per rank.
  Count part(int index) const { return chunk_range(kind, n, count, n, (index + n) % n).count; }
};

// Reduce phase of a ring: all chunks but the own one leave, the first of them as it was given.
void add_ring_reducing(Traffic& t, const Shape& s) {
  t.messages_sent += s.others();
  t.messages_received += s.others();
  t.elements_sent += s.part(s.rank - 1);
  t.elements_received += s.part(s.rank - 2 + s.n);
  t.partials_sent += s.count - s.part(s.rank) - s.part(s.rank - 1);
  t.partials_received += s.count - s.part(s.rank - 1) - s.part(s.rank - 2 + s.n);
  t.combines += s.others();
}

// Gather phase of a ring: all chunks but the next rank's leave, all but the own one arrive.
void add_ring_gathering(Traffic& t, const Shape& s) {
  t.messages_sent += s.others();
  t.messages_received += s.others();
  t.elements_sent += s.count - s.part(s.rank + 1);
  t.elements_received += s.count - s.part(s.rank);
}

Traffic ring(const Shape& s) {
  Traffic t;
  const int place = (s.rank + s.n - s.root) % s.n;
  const Count first = place > 0 ? 1 : 0;
  const Count last = place < s.n - 1 ? 1 : 0;
  if (s.kind == Collective::kAllReduce || s.kind == Collective::kReduceScatter)
    add_ring_reducing(t, s);
  if (s.kind == Collective::kAllReduce || s.kind == Collective::kAllGather)
    add_ring_gathering(t, s);
  if (s.kind == Collective::kAllGather) t.local_steps = 1;
  if (s.kind == Collective::kBroadcast) {
    t.messages_sent = last;
    t.messages_received = first;
    t.elements_sent = last * s.count;
    t.elements_received = first * s.count;
  }
  if (s.kind == Collective::kReduce) {
    t.messages_sent = first;
    t.messages_received = t.combines = last;
    (place == s.n - 1 ? t.elements_sent : t.partials_sent) = first * s.count;
    (place == s.n - 2 ? t.elements_received : t.partials_received) = last * s.count;
  }
  return t;
}

// The canonical sum at one rank of `elements` from each: two parts that both arrive are the only
// reason for a reduce step, and that happens for each aligned pair of ranks that the rank is not
// in.
void add_direct_sum(Traffic& t, const Shape& s, Count elements) {
  t.messages_received += s.others();
  t.elements_received += s.others() * elements;
  t.combines += s.others();
  t.local_steps += static_cast<Count>(s.n / 2 - ((s.rank ^ 1) < s.n ? 1 : 0));
}

Traffic direct_blocks(const Shape& s) {
  Traffic t;
  const bool is_root = s.rank == s.root;
  if (s.kind == Collective::kAllToAll) {
    t.messages_sent = t.messages_received = s.others();
    t.elements_sent = t.elements_received = s.others() * s.pair();
    t.local_steps = 1;
    return t;
  }
  const Count messages = is_root ? s.others() : 1;
  const Count elements = is_root ? s.count - s.part(s.root) : s.part(s.rank);
  const bool receives = is_root == (s.kind == Collective::kGather);
  (receives ? t.messages_received : t.messages_sent) = messages;
  (receives ? t.elements_received : t.elements_sent) = elements;
  t.local_steps = is_root ? 1 : 0;
  return t;
}

Traffic one_shot(const Shape& s) {
  Traffic t;
  const bool is_root = s.rank == s.root;
  switch (s.kind) {
    case Collective::kAllReduce:
      t.messages_sent = s.others();
      t.elements_sent = s.others() * s.count;
      add_direct_sum(t, s, s.count);
      break;
    case Collective::kReduceScatter:
      t.messages_sent = s.others();
      t.elements_sent = s.count - s.part(s.rank);
      add_direct_sum(t, s, s.part(s.rank));
      break;
    case Collective::kAllGather:
      t.messages_sent = t.messages_received = s.others();
      t.elements_sent = s.others() * s.part(s.rank);
      t.elements_received = s.count - s.part(s.rank);
      t.local_steps = 1;
      break;
    case Collective::kBroadcast:
      (is_root ? t.messages_sent : t.messages_received) = is_root ? s.others() : 1;
      (is_root ? t.elements_sent : t.elements_received) = (is_root ? s.others() : 1) * s.count;
      break;
    case Collective::kReduce:
      if (is_root) {
        add_direct_sum(t, s, s.count);
      } else {
        t.messages_sent = 1;
        t.elements_sent = s.count;
      }
      break;
    case Collective::kBarrier:
      t.messages_sent = t.messages_received = s.others();
      t.elements_sent = t.elements_received = s.others() * s.count;
      break;
    default:
      return direct_blocks(s);
  }
  return t;
}

Traffic two_shot(const Shape& s) {
  Traffic t;
  t.messages_sent = 2 * s.others();
  t.elements_sent = s.count + (s.others() - 1) * s.part(s.rank);
  add_direct_sum(t, s, s.part(s.rank));
  t.messages_received += s.others();
  t.elements_received += s.count - s.part(s.rank);
  return t;
}

Traffic star(const Shape& s) {
  Traffic t;
  const bool is_centre = s.rank == 0;
  t.messages_sent = is_centre ? s.others() : 1;
  t.elements_sent = t.messages_sent * s.count;
  if (is_centre) {
    add_direct_sum(t, s, s.count);
  } else {
    t.messages_received = 1;
    t.elements_received = s.count;
  }
  return t;
}

struct Children {
  Count all = 0;
  Count leaves = 0;
};

// A rank meets the other half of each aligned block of 2, 4, 8, ... ranks in which it holds the
// sum: the root in every block, another rank while it is the first of the block and the root is not
// in it.
Children children_of(const Shape& s) {
  Children children;
  for (int level = 0; (1 << level) < s.n; ++level) {
    const bool is_root = s.rank == s.root;
    const bool first = s.rank % (2 << level) == 0;
    const bool with_root = (s.rank >> (level + 1)) == (s.root >> (level + 1));
    if (!is_root && (!first || with_root)) break;
    const int other = ((s.rank >> level) ^ 1) << level;
    if (other >= s.n) continue;
    ++children.all;
    if (level == 0 || other + 1 == s.n) ++children.leaves;
  }
  return children;
}

Traffic tree(const Shape& s) {
  Traffic t;
  const Children children = children_of(s);
  const Count parent = s.rank == s.root ? 0 : 1;
  const bool barrier = s.kind == Collective::kBarrier;
  if (s.kind != Collective::kBroadcast) {
    const bool partial = children.all > 0 && !barrier;
    const Count elements = barrier ? children.all : children.leaves;
    t.messages_sent += parent;
    t.messages_received += children.all;
    (partial ? t.partials_sent : t.elements_sent) += parent * s.count;
    t.elements_received += elements * s.count;
    t.partials_received += (children.all - elements) * s.count;
    t.combines = barrier ? 0 : children.all;
  }
  if (s.kind != Collective::kReduce) {
    t.messages_sent += children.all;
    t.messages_received += parent;
    t.elements_sent += children.all * s.count;
    t.elements_received += parent * s.count;
  }
  return t;
}

// Elements of the chunks that are `residue` modulo `modulus`, which divides the number of chunks.
Count class_size(const Shape& s, int chunks, int residue, int modulus) {
  const Count extra = s.count % static_cast<Count>(chunks);
  const Count place = static_cast<Count>(residue % modulus);
  const Count step = static_cast<Count>(modulus);
  const Count larger = extra > place ? (extra - place - 1) / step + 1 : 0;
  return static_cast<Count>(chunks) / step * (s.count / static_cast<Count>(chunks)) + larger;
}

struct HalvingGroup {
  int first = 0, size = 0, tail = 0;  // tail: ranks after the group
};

HalvingGroup halving_group(const Shape& s) {
  HalvingGroup g{0, floor_power_of_two(s.n), 0};
  while (s.rank >= g.first + g.size) {
    g.first += g.size;
    g.size = floor_power_of_two(s.n - g.first);
  }
  g.tail = s.n - g.first - g.size;
  return g;
}

Traffic halving_doubling(const Shape& s) {
  const int chunks = floor_power_of_two(s.n);
  const HalvingGroup g = halving_group(s);
  const int place = s.rank - g.first;
  const auto held = static_cast<Count>(chunks / g.size);  // chunks that the rank sums
  const Count exchanged = static_cast<Count>(chunks) - held;
  const Count own = class_size(s, chunks, place, g.size);
  Count kept = 0;  // elements of what stays with the rank in each exchange
  for (int m = 2; m <= g.size; m *= 2) kept += class_size(s, chunks, place, m);
  Traffic t;
  if (s.kind != Collective::kAllGather) {
    const bool exchanges = g.size > 1;
    const Count raw_sent = exchanges ? class_size(s, chunks, place ^ 1, 2) : 0;
    const Count raw_received = exchanges ? class_size(s, chunks, place, 2) : 0;
    t.messages_sent = t.messages_received = t.combines = exchanged;
    t.elements_sent = raw_sent;
    t.partials_sent = s.count - own - raw_sent;
    t.elements_received = raw_received;
    t.partials_received = kept - raw_received;
    if (!exchanges) t.partials_sent = 0;
    if (g.first > 0) {
      t.messages_sent += held;
      (g.size == 1 ? t.elements_sent : t.partials_sent) += own;
    }
    if (g.tail > 0) {
      t.messages_received += held;
      t.combines += held;
      (g.tail == 1 ? t.elements_received : t.partials_received) += own;
    }
  }
  if (s.kind != Collective::kReduceScatter) {
    t.messages_sent += exchanged + (g.tail > 0 ? held : 0);
    t.elements_sent += kept + (g.tail > 0 ? own : 0);
    t.messages_received += exchanged + (g.first > 0 ? held : 0);
    t.elements_received += s.count - own + (g.first > 0 ? own : 0);
  }
  if (s.kind == Collective::kAllGather) t.local_steps = 1;
  return t;
}

}  // namespace

Traffic count_traffic(const Schedule& schedule, int rank, std::size_t count) {
  Traffic t;
  const auto elements = [&](const Slice& slice) {
    return chunk_range(schedule.kind, schedule.size(), count, schedule.chunks, slice.chunk).count;
  };
  for (const Lane& lane : schedule.ranks[static_cast<std::size_t>(rank)].lanes) {
    for (const Step& step : lane.steps) {
      const bool plain = step.wire == Wire::kElement;
      if (step.kind == StepKind::kSend) {
        ++t.messages_sent;
        (plain ? t.elements_sent : t.partials_sent) += elements(step.a);
      } else if (step.kind == StepKind::kRecv || step.kind == StepKind::kRecvReduce) {
        ++t.messages_received;
        (plain ? t.elements_received : t.partials_received) += elements(step.dst);
      } else {
        ++t.local_steps;
      }
      if (step.kind == StepKind::kRecvReduce || step.kind == StepKind::kReduce) ++t.combines;
    }
  }
  return t;
}

Result<Traffic> traffic_formula(std::string_view name, Collective kind, int n, int root, int rank,
                                std::size_t count, HostOf host_of) {
  const Generator* generator = find_generator(name);
  if (generator == nullptr || !generator->supports(kind, n, host_of)) {
    return Status(Code::kUnsupported, "no formula for " + std::string(name) + " " +
                                          to_string(kind) + " over " + std::to_string(n) +
                                          " ranks");
  }
  if (n == 1) {
    Traffic t;
    t.local_steps = is_reduction(kind) || has_blocks(kind) ? 1 : 0;
    return t;
  }
  const Shape s{kind, n, is_rooted(kind) ? root : 0, rank, count};
  if (name == "ring") return ring(s);
  if (name == "one_shot") return one_shot(s);
  if (name == "two_shot") return two_shot(s);
  if (name == "tree") return tree(s);
  if (name == "halving_doubling") return halving_doubling(s);
  if (name == "ring_bidirectional") return ring_bidirectional_traffic(kind, n, rank, count);
  if (name == "ring_meet") return ring_meet_traffic(kind, n, rank, count);
  if (name == "star") return star(s);
  if (name == "double_tree") return double_tree_traffic(n, rank, count);
  return hierarchical_traffic(*generator->hierarchy, kind, s.root, rank, count, host_of);
}

}  // namespace syncline::plan
