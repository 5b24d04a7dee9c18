// Schedule: a way of synchronising, as data. Immutable once built.
//
// A schedule says, for each rank, a few lanes of steps over chunks of the whole vector. The
// executor runs the lanes of a rank concurrently and each lane in order. It knows no algorithm by
// name.
//
// Chunks and segments. The whole vector (for reduce_scatter, all_gather, gather and scatter: size()
// blocks in rank order; for all_to_all: size() * size() blocks, first those that rank 0 gives to
// rank 0, 1, ..., then those of rank 1, ...) is cut into `chunks` chunks whose sizes differ by at
// most one element within a block. A step moves one chunk. The executor cuts every chunk into the
// same number S of segments and runs the whole schedule once per segment index ("instance"),
// several instances in flight: instances touch disjoint bytes, so a schedule is written, proved and
// costed for one instance, and pipelining comes for free.
//
// Buffers. kIn and kOut are the caller's tensors and may be the same memory; chunk indices count
// over the whole vector, also where a rank holds only its own block. kAcc holds partial results in
// the accumulate type; where the types agree and the rank has kOut storage for that chunk, kAcc[c]
// *is* kOut[c] (so a schedule must be right with kIn = kOut = kAcc and with three separate buffers:
// the checker proves both). kScratch slots are private to an instance, accumulate type, and sized
// for a chunk's segment.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "syncline/types.h"

namespace syncline::plan {

enum class Buf : std::uint8_t { kIn = 0, kOut = 1, kAcc = 2, kScratch = 3 };

struct Slice {
  Buf buf = Buf::kIn;
  std::uint16_t chunk = 0;  // which chunk's place and length
  std::uint16_t slot = 0;   // kScratch only: which slot; its content has the length of `chunk`
  friend bool operator==(const Slice&, const Slice&) = default;
};

enum class StepKind : std::uint8_t {
  kSend = 0,        // a -> peer
  kRecv = 1,        // dst = incoming
  kRecvReduce = 2,  // dst = a (op) incoming; dst may be a
  kCopy = 3,        // dst = a
  kReduce = 4,      // dst = a (op) b; dst may be a or b
};

// What travels: elements of the tensor's type, or partial results in the accumulate type. A kIn or
// kOut source is kElement, a kAcc or kScratch source is kAccumulator. Sender and receiver must
// agree.
enum class Wire : std::uint8_t { kElement = 0, kAccumulator = 1 };

// The step waits until `step` of `lane` (same rank, same instance) has completed.
struct After {
  std::uint16_t lane = 0;
  std::uint16_t step = 0;
  friend bool operator==(const After&, const After&) = default;
};

struct Step {
  StepKind kind = StepKind::kSend;
  Wire wire = Wire::kElement;  // send, recv, recv_reduce
  // Writes the final value: divides for an average and rounds to the element type. Exactly one
  // finish lies between the contributions and each received result of a reduction; dst is then
  // kOut.
  bool finish = false;
  std::int16_t peer = -1;  // send, recv, recv_reduce
  // Names the message among those of one instance from one rank to another: 0, 1, 2, ... in the
  // order of the sender's program text (lane by lane).
  std::uint16_t tag = 0;
  Slice dst, a, b;
  std::vector<After> after;
  friend bool operator==(const Step&, const Step&) = default;
};

struct Lane {
  std::vector<Step> steps;
  friend bool operator==(const Lane&, const Lane&) = default;
};

// A rank of an all-reduce that neither gives nor receives only helps: its kOut is room for finished
// parts that it passes on.
struct RankProgram {
  bool contributes = true;  // gives data
  bool receives = true;     // ends with the result
  std::uint16_t scratch_slots = 0;
  std::vector<Lane> lanes;
  friend bool operator==(const RankProgram&, const RankProgram&) = default;
};

struct Schedule {
  std::string name;  // the generator's: "ring", "one_shot", "two_shot", "tree", "halving_doubling"
  Collective kind = Collective::kAllReduce;
  std::uint16_t chunks = 1;
  std::int16_t root = 0;       // broadcast, reduce, gather, scatter
  bool canonical_sum = false;  // claims to evaluate the canonical tree (DESIGN "Numerics")
  std::vector<RankProgram> ranks;

  int size() const { return static_cast<int>(ranks.size()); }
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

}  // namespace syncline::plan
