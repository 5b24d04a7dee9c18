// Hierarchical schedules: inside the host, then across hosts, then inside again.
#pragma once

#include <array>

#include "plan/hosts.h"
#include "plan/schedule.h"

namespace syncline::plan {

// How a chunk is combined and spread within a group, and whether the group's members take turns as
// its root.
enum class Way : std::uint8_t { kRing, kOneShot, kTwoShot, kTree, kHalvingDoubling };
inline constexpr std::array<const char*, 5> kWayNames = {"ring", "one_shot", "two_shot", "tree",
                                                         "halving_doubling"};

// Ring: a chain around the members. One-shot and two-shot: straight to the root, which adds in
// canonical order. Tree and halving-doubling: along an aligned binomial tree. Ring, two-shot and
// halving-doubling cut the vector so that every member is the root of a part (with rotating roots a
// binomial tree is recursive halving and doubling); the others leave it whole, for small messages.
constexpr bool has_one_root(Way way) { return way == Way::kOneShot || way == Way::kTree; }

// Into how many parts the vector is cut, for roots within hosts and again for roots across them.
struct Division {
  int inner = 1;
  int outer = 1;
};
Division divide(Way inner, Way outer, Collective kind, const std::vector<std::vector<int>>& hosts);
// Which member of a host of so many ranks is the root of a chunk (of kinds without a root).
constexpr int head_of(const Division& d, int members, int chunk) {
  return chunk % d.inner % members;
}
// Which host's head is the root among the heads.
constexpr int host_of_chunk(const Division& d, int hosts, int chunk) {
  return chunk / d.inner % hosts;
}

// all_reduce; reduce and broadcast, where all parts go to or come from the root, so that they lie
// at one rank of each host.
bool hierarchical_supports(Collective kind, int n, HostOf host_of);
// For every chunk one rank of each host, in turns, combines what its host gives, and these ranks,
// one of each host, combine it among themselves. Hosts may differ in size and may lie anywhere.
// Across hosts, one-shot is a true exchange: each of these ranks adds for itself.
Schedule make_hierarchical(const char* name, Way inner, Way outer, Collective kind, int n, int root,
                           HostOf host_of);

}  // namespace syncline::plan
