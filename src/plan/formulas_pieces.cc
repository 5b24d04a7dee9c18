#include "plan/formulas_pieces.h"

#include <algorithm>
#include <functional>

#include "plan/canonical.h"
#include "plan/generators/hierarchical.h"
#include "plan/partition.h"

namespace syncline::plan {
namespace {

using Amount = std::uint64_t;

// Sizes of the chunks where each of n ranks owns `each` of them.
struct Parts {
  Collective kind;
  int n;
  std::size_t count;
  int each;
  Amount size(int owner, int which = 0) const {
    const int rank = (owner % n + n) % n;
    return chunk_range(kind, n, count, n * each, rank * each + which).count;
  }
};

// What a member of a group does when one chunk is combined at, or spread from, a root.
struct Part {
  Amount sent = 0;            // messages
  Amount received = 0;        // messages
  Amount received_given = 0;  // of these, those that hold a member's own value, not a sum
  Amount local_steps = 0;
};

// `given(m)`: whether member m's own value is a contribution as it was given.
using Given = std::function<bool(int member)>;

Amount count_given(int size, int except, const Given& given) {
  Amount all = 0;
  for (int m = 0; m < size; ++m) all += m != except && given(m) ? 1 : 0;
  return all;
}

// Local reduces of a direct sum: one for each aligned pair of members without the one that sums.
Amount pairs_without(int size, int member) {
  return static_cast<Amount>(size / 2 - ((member ^ 1) < size ? 1 : 0));
}

// Children of a member in the aligned binomial tree of a root: as children_of() in formulas.cc.
Part binomial_children(int size, int root, int member, const Given& given) {
  Part part;
  for (int level = 0; (1 << level) < size; ++level) {
    const bool is_root = member == root;
    const bool first = member % (2 << level) == 0;
    const bool with_root = (member >> (level + 1)) == (root >> (level + 1));
    if (!is_root && (!first || with_root)) break;
    const int other = ((member >> level) ^ 1) << level;
    if (other >= size) continue;
    ++part.received;
    const bool leaf = level == 0 || other + 1 == size;
    if (leaf && given(other)) ++part.received_given;
  }
  return part;
}

Part combining(Way way, int size, int root, int member, const Given& given) {
  Part part;
  if (size == 1) return part;
  if (way == Way::kOneShot || way == Way::kTwoShot) {
    if (member == root) {
      part.received = static_cast<Amount>(size - 1);
      part.received_given = count_given(size, root, given);
      part.local_steps = pairs_without(size, member);
    }
  } else if (way == Way::kRing) {
    const int place = (member - root - 1 + size) % size;  // 0 begins the chain
    part.received = place > 0 ? 1 : 0;
    part.received_given = place == 1 && given((member + size - 1) % size) ? 1 : 0;
  } else {
    part = binomial_children(size, root, member, given);
  }
  part.sent = member == root ? 0 : 1;
  return part;
}

Part spreading(Way way, int size, int root, int member) {
  Part part;
  if (size == 1) return part;
  part.received = member == root ? 0 : 1;
  if (way == Way::kOneShot || way == Way::kTwoShot) {
    part.sent = member == root ? static_cast<Amount>(size - 1) : 0;
  } else if (way == Way::kRing) {
    part.sent = (member + 1) % size == root ? 0 : 1;
  } else {
    part.sent = binomial_children(size, root, member, [](int) { return true; }).received;
  }
  return part;
}

// `gives`: what this member sends is a contribution as it was given.
void add_combining(Traffic& t, const Part& part, Amount elements, bool gives) {
  t.messages_sent += part.sent;
  t.messages_received += part.received;
  (gives ? t.elements_sent : t.partials_sent) += part.sent * elements;
  t.elements_received += part.received_given * elements;
  t.partials_received += (part.received - part.received_given) * elements;
  t.combines += part.received;
  t.local_steps += part.local_steps;
}

void add_spreading(Traffic& t, const Part& part, Amount elements) {
  t.messages_sent += part.sent;
  t.messages_received += part.received;
  t.elements_sent += part.sent * elements;
  t.elements_received += part.received * elements;
}

struct Place {
  int host = 0;
  int member = 0;
};

Place place_of(const std::vector<std::vector<int>>& hosts, int rank) {
  for (std::size_t h = 0; h < hosts.size(); ++h) {
    const auto at = std::find(hosts[h].begin(), hosts[h].end(), rank);
    if (at != hosts[h].end()) return {static_cast<int>(h), static_cast<int>(at - hosts[h].begin())};
  }
  return {};
}

// One chunk among the heads, of which this rank is one.
void add_across(Traffic& t, Way way, bool exchanges, Collective kind, int root, int host,
                Amount elements, const std::vector<std::vector<int>>& hosts) {
  const int size = static_cast<int>(hosts.size());
  const Given alone = [&](int h) { return hosts[static_cast<std::size_t>(h)].size() == 1; };
  if (exchanges && size > 1) {
    const auto others = static_cast<Amount>(size - 1);
    const Part part{others, others, count_given(size, host, alone), pairs_without(size, host)};
    return add_combining(t, part, elements, alone(host));
  }
  if (kind != Collective::kBroadcast) {
    const Part part = combining(way, size, root, host, alone);
    add_combining(t, part, elements, part.received == 0 && alone(host));
  }
  if (kind != Collective::kReduce) add_spreading(t, spreading(way, size, root, host), elements);
}

}  // namespace

Traffic ring_bidirectional_traffic(Collective kind, int n, int rank, std::size_t count) {
  const Parts parts{kind, n, count, 2};
  const auto others = static_cast<Amount>(2 * (n - 1));
  const Amount own = parts.size(rank, 0) + parts.size(rank, 1);
  Traffic t;
  if (kind != Collective::kAllGather) {
    // A half begins at the owner's neighbour on one side and takes the long way.
    const Amount given = parts.size(rank - 1, 0) + parts.size(rank + 1, 1);
    const Amount taken = parts.size(rank - 2, 0) + parts.size(rank + 2, 1);
    t.messages_sent = t.messages_received = t.combines = others;
    t.elements_sent = given;
    t.partials_sent = count - own - given;
    t.elements_received = taken;
    t.partials_received = count - given - taken;
  }
  if (kind != Collective::kReduceScatter) {
    t.messages_sent += others;
    t.messages_received += others;
    // A half ends at the owner's other neighbour.
    t.elements_sent += count - parts.size(rank + 1, 0) - parts.size(rank - 1, 1);
    t.elements_received += count - own;
  }
  if (kind == Collective::kAllGather) t.local_steps = 2;
  return t;
}

Traffic ring_meet_traffic(Collective kind, int n, int rank, std::size_t count) {
  const Parts parts{kind, n, count, 1};
  const int ahead = n / 2;  // ranks on the side of an owner that come with +1
  const int behind = n - 1 - ahead;
  const Amount sides = behind > 0 ? 2 : 1;
  const auto others = static_cast<Amount>(n - 1);
  // This rank is the far end of two owners' sides (of one where the other side is empty).
  const Amount ends = parts.size(rank + ahead) + (behind > 0 ? parts.size(rank - behind) : 0);
  const Amount next_to_ends =
      parts.size(rank - 1 + ahead) + (behind > 0 ? parts.size(rank + 1 - behind) : 0);
  const Amount passed = count - parts.size(rank) - ends + sides * parts.size(rank);
  Traffic t;
  if (kind != Collective::kAllGather) {
    t.messages_sent = t.messages_received = t.combines = others;
    t.elements_sent = ends;
    t.partials_sent = count - parts.size(rank) - ends;
    t.elements_received = next_to_ends;
    t.partials_received = passed - next_to_ends;
  }
  if (kind != Collective::kReduceScatter) {
    t.messages_sent += others;
    t.messages_received += others;
    t.elements_sent += passed;
    t.elements_received += count - parts.size(rank);
  }
  if (kind == Collective::kAllGather) t.local_steps = 1;
  return t;
}

Traffic double_tree_traffic(int n, int rank, std::size_t count) {
  Traffic t;
  for (const int tree : {0, 1}) {
    const Amount elements = chunk_range(Collective::kAllReduce, n, count, 2, tree).count;
    const int place = tree == 0 ? rank : n % 2 == 0 ? n - 1 - rank : (rank + n - 1) % n;
    Part part;
    part.sent = place == 0 ? 0 : 1;
    const auto add_child = [&](int child) {
      ++part.received;
      part.received_given += child % 2 == 1 ? 1 : 0;  // odd places are the leaves
    };
    const int bit = place & -place;
    if (place == 0) add_child(floor_power_of_two(n - 1));
    if (bit > 1) add_child(place - bit / 2);
    for (int b = bit / 2; b > 0; b /= 2) {
      if (place + b >= n) continue;
      add_child(place + b);
      break;
    }
    add_combining(t, part, elements, part.received == 0);
    std::swap(part.sent, part.received);
    add_spreading(t, part, elements);
  }
  return t;
}

Traffic hierarchical_traffic(const Hierarchy& ways, Collective kind, int root, int rank,
                             std::size_t count, HostOf host_of) {
  const std::vector<std::vector<int>> hosts = ranks_by_host(host_of);
  const Division d = divide(ways.inner, ways.outer, kind, hosts);
  const bool rooted = kind != Collective::kAllReduce;
  const bool exchanges = ways.outer == Way::kOneShot && !rooted;
  const Place mine = place_of(hosts, rank);
  const Place of_root = place_of(hosts, root);
  const int size = static_cast<int>(hosts[static_cast<std::size_t>(mine.host)].size());
  const Given always = [](int) { return true; };
  Traffic t;
  for (int chunk = 0; chunk < d.inner * d.outer; ++chunk) {
    const Amount elements = chunk_range(kind, 0, count, d.inner * d.outer, chunk).count;
    const int head = rooted && mine.host == of_root.host ? of_root.member : head_of(d, size, chunk);
    if (kind != Collective::kBroadcast) {
      const Part part = combining(ways.inner, size, head, mine.member, always);
      add_combining(t, part, elements, part.received == 0);
    }
    if (mine.member == head) {
      const int across =
          rooted ? of_root.host : host_of_chunk(d, static_cast<int>(hosts.size()), chunk);
      add_across(t, ways.outer, exchanges, kind, across, mine.host, elements, hosts);
    }
    if (kind != Collective::kReduce) {
      add_spreading(t, spreading(ways.inner, size, head, mine.member), elements);
    }
  }
  return t;
}

}  // namespace syncline::plan
