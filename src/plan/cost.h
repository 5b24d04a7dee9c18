// Alpha-beta-gamma cost: predicts a schedule's time and chooses among generators. Pure,
// thread-safe.
//
// The prediction simulates the lanes of all ranks. A rank has one CPU that serves its steps first
// come, first served: sends and receives copy, combining reads and writes. A rank has one port in
// each direction, on which a message of b bytes takes beta * b; it can be received alpha later.
// Where it is known who shares a host, the ranks of a host share its port, and messages within a
// host use none and have costs of their own (so all messages of a group within one host). A few
// instances (segments) are in flight; after some of them the time per further segment is
// extrapolated.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "plan/schedule.h"

namespace syncline::plan {

// Of a message within a host.
struct LocalCost {
  double alpha_s = 0;
  double copy_s_per_byte = 0;
  double step_s = 0;
};

struct CostParams {
  double alpha_s = 0;           // from the end of a send until the peer can receive
  double beta_s_per_byte = 0;   // inverse bandwidth of a rank's port
  double gamma_s_per_byte = 0;  // combining, per byte of the result
  double copy_s_per_byte = 0;   // send, receive, copy: CPU, per byte moved
  double step_s = 0;            // CPU, per step
  double switch_s = 0;          // added to alpha where ranks of a host exceed its cores
  int ranks_per_host = 1;
  int cores_per_host = 0;  // 0: never the limit
  int instances_in_flight = 4;
  std::vector<int> host_of;  // by rank of the group (see HostOf); empty: all links are alike
  LocalCost local;           // used where host_of is known
};

// Rough values of a machine that was not measured. `transport`: "inproc", "shm" or "tcp"; other
// names give those of tcp. `local` is that of memory, but with "tcp" that of the loopback
// interface.
CostParams default_cost(std::string_view transport, int ranks_per_host, int cores_per_host);

// Seconds for `bytes` bytes of the whole vector (reduce_scatter and all_gather: all blocks).
// Precondition: check(schedule).ok(). For 8 ranks well below a millisecond.
double predict_seconds(const Schedule& schedule, std::size_t bytes, DType dtype,
                       std::size_t segment_bytes, const CostParams& params);

// What to choose for, and from what.
struct Request {
  Collective kind = Collective::kAllReduce;
  int ranks = 1;
  int root = 0;
  std::size_t bytes = 0;  // of the whole vector
  DType dtype = DType::kF32;
  bool canonical_only = false;  // "reproducible"
  // Names of generators; empty: those that may win with these parameters (Generator::tried).
  std::span<const std::string_view> allowed = {};
};

struct Choice {
  std::string name;
  std::size_t segment_bytes = 0;
  double predicted_s = 0;
  // "two_shot 33 us < ring 41 us < tree 55 us at 512 KiB over 2 ranks"
  std::string reason;
  std::vector<std::string_view> tried;  // names of generators, the fastest first
};

// The segment sizes that choose() tries, in order of preference.
std::span<const std::size_t> candidate_segment_bytes();

// One schedule, with the segment size that suits it best.
Choice fit(const Schedule& schedule, const Request& request, const CostParams& params);

// The fastest by prediction; of equals the first in the table, the larger segment. An unknown name
// is invalid_argument, no candidate for the kind unsupported; the message names those that would
// do.
Result<Choice> choose(const Request& request, const CostParams& params);

}  // namespace syncline::plan
