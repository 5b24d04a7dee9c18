#include <bit>
#include <vector>

#include "plan/builder.h"
#include "plan/canonical.h"
#include "plan/generators.h"
#include "plan/generators/algorithms.h"
#include "plan/partition.h"

namespace syncline::plan {
namespace {

enum Phase { kUp = 0, kDown = 1 };

// A power of two of consecutive ranks. Rank first + i holds, once the group has halved its vectors,
// the chunks c = i modulo size. The ranks after the group are its tail: a group again, with a tail
// again.
struct Group {
  int first = 0;
  int size = 0;
  int holder(int chunk) const { return first + chunk % size; }
};

std::vector<Group> groups_of(int n) {
  std::vector<Group> groups;
  for (int first = 0; first < n; first += groups.back().size) {
    groups.push_back({first, floor_power_of_two(n - first)});
  }
  return groups;
}

// Writes the program of one rank of groups[depth] into one lane. Within an exchange sends and
// receives alternate, so that one frame of room in each direction is enough.
class RankWriter {
 public:
  RankWriter(Builder& b, LaneRef at, const std::vector<Group>& groups, std::size_t depth,
             int chunks)
      : b_(b),
        at_(at),
        group_(groups[depth]),
        parent_(depth > 0 ? &groups[depth - 1] : nullptr),
        tail_(depth + 1 < groups.size() ? &groups[depth + 1] : nullptr),
        place_(at.rank - group_.first),
        chunks_(chunks) {
    for (int chunk = 0; chunk < chunks; ++chunk) held_.push_back(in(chunk));
  }

  // Afterwards the rank holds the group's (and its tail's) sum of its chunks; the first group
  // finishes.
  void reduce_scatter() {
    for (int distance = 1; distance < group_.size; distance *= 2) {
      const bool last = distance * 2 == group_.size && tail_ == nullptr;
      const int peer = group_.first + (place_ ^ distance);
      const int step = distance * 2;
      for (int chunk = 0; chunk < chunks_; chunk += step) {
        const int give = chunk + (place_ ^ distance) % step;
        b_.send(at_, held(give), peer, message_key(kUp, give));
        take(chunk + place_ % step, peer, last);
      }
    }
    if (tail_ != nullptr) {
      for (int c = place_; c < chunks_; c += group_.size) take(c, tail_->holder(c), true);
    }
    if (parent_ != nullptr) {
      for (int c = place_; c < chunks_; c += group_.size) {
        b_.send(at_, held(c), parent_->holder(c), message_key(kUp, c));
      }
    }
  }

  // From the first group, whose ranks hold their finished chunks, to everyone.
  void all_gather() {
    for (int c = place_; c < chunks_; c += group_.size) {
      if (parent_ != nullptr) fetch(c, parent_->holder(c));
      if (tail_ != nullptr) b_.send(at_, held(c), tail_->holder(c), message_key(kDown, c));
    }
    for (int distance = group_.size / 2; distance > 0; distance /= 2) {
      const int peer = group_.first + (place_ ^ distance);
      const int step = distance * 2;
      for (int chunk = 0; chunk < chunks_; chunk += step) {
        const int give = chunk + place_ % step;
        b_.send(at_, held(give), peer, message_key(kDown, give));
        fetch(chunk + (place_ ^ distance) % step, peer);
      }
    }
  }

 private:
  Slice& held(int chunk) { return held_[static_cast<std::size_t>(chunk)]; }

  void take(int chunk, int from, bool last) {
    const Slice dst = last && parent_ == nullptr ? out(chunk) : acc(chunk);
    b_.recv_reduce(at_, dst, held(chunk), from, message_key(kUp, chunk));
    held(chunk) = dst;
  }

  void fetch(int chunk, int from) {
    b_.recv(at_, out(chunk), from, message_key(kDown, chunk));
    held(chunk) = out(chunk);
  }

  Builder& b_;
  const LaneRef at_;
  const Group group_;
  const Group* const parent_;
  const Group* const tail_;
  const int place_;
  const int chunks_;
  std::vector<Slice> held_;  // where the newest value of each chunk lies
};

}  // namespace

bool halving_doubling_supports(Collective kind, int n) {
  if (n < 1 || n > kRanksMaxQuadratic) return false;
  if (kind == Collective::kAllReduce) return true;
  return has_blocks(kind) && std::has_single_bit(static_cast<unsigned>(n));
}

Schedule make_halving_doubling(Collective kind, int n, int root) {
  if (n == 1) return make_solo("halving_doubling", kind);
  const std::vector<Group> groups = groups_of(n);
  const int chunks = groups.front().size;
  Builder b("halving_doubling", kind, n, chunks, root);
  for (std::size_t depth = 0; depth < groups.size(); ++depth) {
    for (int i = 0; i < groups[depth].size; ++i) {
      const LaneRef lane = b.new_lane(groups[depth].first + i);
      RankWriter writer(b, lane, groups, depth, chunks);
      if (kind != Collective::kAllGather) writer.reduce_scatter();
      if (kind != Collective::kReduceScatter) writer.all_gather();
      if (kind == Collective::kAllGather)
        b.copy(b.new_lane(lane.rank), out(lane.rank), in(lane.rank));
    }
  }
  return b.build(true);
}

}  // namespace syncline::plan
