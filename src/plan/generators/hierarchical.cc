#include "plan/generators/hierarchical.h"

#include <algorithm>

#include "plan/builder.h"
#include "plan/generators.h"
#include "plan/generators/pieces.h"
#include "plan/partition.h"

namespace syncline::plan {
namespace {

// The time and the pair of lanes of each part.
enum Level { kInwards = 0, kAcross = 1, kBackAcross = 2, kOutwards = 3, kLevels = 4 };

class HierarchyWriter {
 public:
  HierarchyWriter(Builder& b, Way inner, Way outer, std::vector<std::vector<int>> hosts,
                  const Division& division, int root, bool rooted)
      : pieces_(b, static_cast<int>(ranks_in(hosts)), division.inner * division.outer, kLevels),
        inner_(inner),
        outer_(outer),
        hosts_(std::move(hosts)),
        division_(division),
        root_(rooted ? root : -1) {}

  void combine() {
    const bool alone = hosts_.size() == 1;
    pieces_.set_phase(kInwards, kInwards);
    for (int chunk = 0; chunk < chunks(); ++chunk) {
      for (const std::vector<int>& host : hosts_) {
        combine_within(inner_, chunk, host, root_within(host, chunk), alone);
      }
    }
    pieces_.set_phase(kAcross, kAcross);
    for (int chunk = 0; chunk < chunks(); ++chunk) {
      if (exchanges()) {
        pieces_.exchange(chunk, heads(chunk));
      } else {
        combine_within(outer_, chunk, heads(chunk), head_root(chunk), true);
      }
    }
  }

  void spread() {
    pieces_.set_phase(kBackAcross, kBackAcross);
    for (int chunk = 0; chunk < chunks() && !exchanges(); ++chunk) {
      spread_within(outer_, chunk, heads(chunk), head_root(chunk));
    }
    pieces_.set_phase(kOutwards, kOutwards);
    for (int chunk = 0; chunk < chunks(); ++chunk) {
      for (const std::vector<int>& host : hosts_) {
        spread_within(inner_, chunk, host, root_within(host, chunk));
      }
    }
  }

  void write() { pieces_.write(); }

 private:
  static std::size_t ranks_in(const std::vector<std::vector<int>>& hosts) {
    std::size_t ranks = 0;
    for (const auto& host : hosts) ranks += host.size();
    return ranks;
  }

  int chunks() const { return division_.inner * division_.outer; }
  bool exchanges() const { return outer_ == Way::kOneShot && root_ < 0; }

  int root_within(const std::vector<int>& host, int chunk) const {
    const auto at = std::find(host.begin(), host.end(), root_);
    if (at != host.end()) return static_cast<int>(at - host.begin());
    return head_of(division_, static_cast<int>(host.size()), chunk);
  }

  // The ranks of a chunk that meet across hosts, one of each host.
  std::vector<int> heads(int chunk) const {
    std::vector<int> ranks;
    for (const std::vector<int>& host : hosts_) {
      ranks.push_back(host[static_cast<std::size_t>(root_within(host, chunk))]);
    }
    return ranks;
  }

  int head_root(int chunk) const {
    for (std::size_t h = 0; h < hosts_.size() && root_ >= 0; ++h) {
      if (std::find(hosts_[h].begin(), hosts_[h].end(), root_) != hosts_[h].end()) {
        return static_cast<int>(h);
      }
    }
    return host_of_chunk(division_, static_cast<int>(hosts_.size()), chunk);
  }

  void combine_within(Way way, int chunk, const std::vector<int>& members, int root, bool last) {
    const int size = static_cast<int>(members.size());
    if (way == Way::kOneShot || way == Way::kTwoShot) {
      pieces_.combine_directly(chunk, members, root, last);
    } else if (way == Way::kRing) {
      pieces_.combine(chunk, members, chain_route(size, root, 1), last);
    } else {
      pieces_.combine(chunk, members, binomial_route(size, root), last);
    }
  }

  void spread_within(Way way, int chunk, const std::vector<int>& members, int root) {
    const int size = static_cast<int>(members.size());
    if (way == Way::kOneShot || way == Way::kTwoShot) {
      pieces_.spread_directly(chunk, members, root);
    } else if (way == Way::kRing) {
      pieces_.spread(chunk, members, chain_from(size, root, 1));
    } else {
      pieces_.spread(chunk, members, reversed(binomial_route(size, root)));
    }
  }

  Pieces pieces_;
  const Way inner_, outer_;
  const std::vector<std::vector<int>> hosts_;
  const Division division_;
  const int root_;  // -1: the kind has none
};

bool sums_canonically(Way inner, Way outer, const std::vector<std::vector<int>>& hosts) {
  const bool inside = hosts.front().size() > 1;  // of aligned hosts the first is a largest one
  if (inner == Way::kRing && inside) return false;
  if (outer == Way::kRing && hosts.size() > 1) return false;
  return hosts_are_aligned(hosts);
}

}  // namespace

Division divide(Way inner, Way outer, Collective kind, const std::vector<std::vector<int>>& hosts) {
  if (kind != Collective::kAllReduce) return {1, 1};
  std::size_t largest = 1;
  for (const auto& host : hosts) largest = std::max(largest, host.size());
  return {has_one_root(inner) ? 1 : static_cast<int>(largest),
          has_one_root(outer) ? 1 : static_cast<int>(hosts.size())};
}

bool hierarchical_supports(Collective kind, int n, HostOf host_of) {
  const bool has_kind = kind == Collective::kAllReduce || kind == Collective::kReduce ||
                        kind == Collective::kBroadcast;
  return has_kind && n >= 1 && n <= kRanksMaxQuadratic &&
         host_of.size() == static_cast<std::size_t>(n);
}

Schedule make_hierarchical(const char* name, Way inner, Way outer, Collective kind, int n, int root,
                           HostOf host_of) {
  if (n == 1) return make_solo(name, kind);
  std::vector<std::vector<int>> hosts = ranks_by_host(host_of);
  const Division division = divide(inner, outer, kind, hosts);
  const bool canonical = sums_canonically(inner, outer, hosts);
  Builder b(name, kind, n, division.inner * division.outer, root);
  HierarchyWriter writer(b, inner, outer, std::move(hosts), division, root,
                         kind != Collective::kAllReduce);
  if (kind != Collective::kBroadcast) writer.combine();
  if (kind != Collective::kReduce) writer.spread();
  writer.write();
  return b.build(canonical);
}

}  // namespace syncline::plan
