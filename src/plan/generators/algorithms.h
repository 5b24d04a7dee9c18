// What the table in generators.cc names. Others use plan/generators.h.
//
// ring: reduce-scatter and all-gather around a ring of ranks (Patarasuk and Yuan, "Bandwidth
//   optimal all-reduce algorithms for clusters of workstations", 2009); broadcast and reduce as a
//   chain. Sums in ring order, so it is never canonical.
// one_shot: everyone sends to everyone who needs it; the receiver sums in canonical order. The only
//   one for gather, scatter and all_to_all.
// two_shot: part c goes to its owner c, who sums it in canonical order, finishes it and returns
//   it to all: the bytes of a ring, and 16-bit floats travel as 16 bits.
// star: everyone sends to rank 0, who sums in canonical order and returns it to all: the simplest
//   parameter server (Zhang, Lipton, Li and Smola, "Dive into Deep Learning", 13.7).
// tree: binomial tree, aligned so that it sums in canonical order for any root.
// halving_doubling: recursive vector halving with distance doubling (Thakur, Rabenseifner and
//   Gropp, "Optimization of collective communication operations in MPICH", 2005), here with the
//   distances in canonical order and, for other than powers of two, with the ranks above the
//   largest power of two reducing among themselves before they join, so that it too sums in
//   canonical order.
// ring_bidirectional: two counter-rotating rings, each with half of every part: the n - 1 steps of
//   a ring, half the bytes in each direction of a link (compare Jain and Sabharwal, "Optimal
//   bucket algorithms for large MPI collectives on torus interconnects", 2010).
// ring_meet: every part goes both ways round and meets at its owner: floor(n / 2) steps in and as
//   many out, the same bytes.
// double_tree: two complementary binary trees, each with half of the vector, so that (almost) every
//   rank has children in one and none in the other (Sanders, Speck and Traeff, "Two-tree algorithms
//   for full bandwidth broadcast, reduction and scan", 2009).
#pragma once

#include "plan/schedule.h"

namespace syncline::plan {

bool ring_supports(Collective kind, int n);
Schedule make_ring(Collective kind, int n, int root);

bool one_shot_supports(Collective kind, int n);
Schedule make_one_shot(Collective kind, int n, int root);

bool two_shot_supports(Collective kind, int n);
Schedule make_two_shot(Collective kind, int n, int root);

bool star_supports(Collective kind, int n);
Schedule make_star(Collective kind, int n, int root);

bool tree_supports(Collective kind, int n);
Schedule make_tree(Collective kind, int n, int root);

bool halving_doubling_supports(Collective kind, int n);
Schedule make_halving_doubling(Collective kind, int n, int root);

bool ring_bidirectional_supports(Collective kind, int n);
Schedule make_ring_bidirectional(Collective kind, int n, int root);

bool ring_meet_supports(Collective kind, int n);
Schedule make_ring_meet(Collective kind, int n, int root);

bool double_tree_supports(Collective kind, int n);
Schedule make_double_tree(Collective kind, int n, int root);

}  // namespace syncline::plan
