#include <bit>
#include <optional>
#include <vector>

#include "plan/builder.h"
#include "plan/canonical.h"
#include "plan/generators.h"
#include "plan/generators/algorithms.h"
#include "plan/partition.h"

namespace syncline::plan {
namespace {

enum HalvingPhase { kHalving = 0, kDoubling = 1 };

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

// Writes the program of one rank of groups[depth]: one lane sends, the other receives, so that no
// exchange waits for the latency of each of its chunks. A send waits for the receive that made its
// value.
class RankWriter {
 public:
  RankWriter(Builder& b, int rank, const std::vector<Group>& groups, std::size_t depth, int chunks)
      : b_(b),
        sends_(b.new_lane(rank)),
        receives_(b.new_lane(rank)),
        group_(groups[depth]),
        parent_(depth > 0 ? &groups[depth - 1] : nullptr),
        tail_(depth + 1 < groups.size() ? &groups[depth + 1] : nullptr),
        place_(rank - group_.first),
        chunks_(chunks) {
    for (int chunk = 0; chunk < chunks; ++chunk) held_.push_back({in(chunk), std::nullopt});
  }

  // Afterwards the rank holds the group's (and its tail's) sum of its chunks; the first group
  // finishes.
  void reduce_scatter() {
    for (int distance = 1; distance < group_.size; distance *= 2) {
      const bool last = distance * 2 == group_.size && tail_ == nullptr;
      const int peer = group_.first + (place_ ^ distance);
      const int step = distance * 2;
      for (int chunk = 0; chunk < chunks_; chunk += step) {
        give(chunk + (place_ ^ distance) % step, peer, kHalving);
        take(chunk + place_ % step, peer, last);
      }
    }
    for (int c = place_; c < chunks_; c += group_.size) {
      if (tail_ != nullptr) take(c, tail_->holder(c), true);
      if (parent_ != nullptr) give(c, parent_->holder(c), kHalving);
    }
  }

  // From the first group, whose ranks hold their finished chunks, to everyone.
  void all_gather() {
    for (int c = place_; c < chunks_; c += group_.size) {
      if (parent_ != nullptr) fetch(c, parent_->holder(c));
      if (tail_ != nullptr) give(c, tail_->holder(c), kDoubling);
    }
    for (int distance = group_.size / 2; distance > 0; distance /= 2) {
      const int peer = group_.first + (place_ ^ distance);
      const int step = distance * 2;
      for (int chunk = 0; chunk < chunks_; chunk += step) {
        give(chunk + place_ % step, peer, kDoubling);
        fetch(chunk + (place_ ^ distance) % step, peer);
      }
    }
  }

 private:
  // Where the newest value of a chunk lies, and the step that put it there.
  struct Held {
    Slice slice;
    std::optional<After> since;
  };
  Held& held(int chunk) { return held_[static_cast<std::size_t>(chunk)]; }

  void give(int chunk, int to, HalvingPhase phase) {
    b_.send(sends_, held(chunk).slice, to, message_key(phase, chunk));
    if (held(chunk).since) b_.wait_for(sends_, *held(chunk).since);
  }

  void take(int chunk, int from, bool last) {
    const Slice dst = last && parent_ == nullptr ? out(chunk) : acc(chunk);
    held(chunk) = {
        dst, b_.recv_reduce(receives_, dst, held(chunk).slice, from, message_key(kHalving, chunk))};
  }

  void fetch(int chunk, int from) {
    held(chunk) = {out(chunk), b_.recv(receives_, out(chunk), from, message_key(kDoubling, chunk))};
  }

  Builder& b_;
  const LaneRef sends_, receives_;
  const Group group_;
  const Group* const parent_;
  const Group* const tail_;
  const int place_;
  const int chunks_;
  std::vector<Held> held_;
};

}  // namespace

bool halving_doubling_supports(Collective kind, int n) {
  if (n < 1 || n > kRanksMaxQuadratic) return false;
  if (kind == Collective::kAllReduce) return true;
  const bool half = kind == Collective::kReduceScatter || kind == Collective::kAllGather;
  return half && std::has_single_bit(static_cast<unsigned>(n));
}

Schedule make_halving_doubling(Collective kind, int n, int root) {
  if (n == 1) return make_solo("halving_doubling", kind);
  const std::vector<Group> groups = groups_of(n);
  const int chunks = groups.front().size;
  Builder b("halving_doubling", kind, n, chunks, root);
  for (std::size_t depth = 0; depth < groups.size(); ++depth) {
    for (int i = 0; i < groups[depth].size; ++i) {
      const int rank = groups[depth].first + i;
      RankWriter writer(b, rank, groups, depth, chunks);
      if (kind != Collective::kAllGather) writer.reduce_scatter();
      if (kind != Collective::kReduceScatter) writer.all_gather();
      if (kind == Collective::kAllGather) b.copy(b.new_lane(rank), out(rank), in(rank));
    }
  }
  return b.build(true);
}

}  // namespace syncline::plan
