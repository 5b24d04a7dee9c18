// Case: one collective call of the matrix, and the check of its result on one rank.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <tuple>

#include "syncline/communicator.h"
#include "tests/harness/workspace.h"

namespace syncline::conformance {

struct Case {
  Collective kind = Collective::kAllReduce;
  DType type = DType::kF32;
  ReduceOp op = ReduceOp::kSum;
  std::size_t count =
      0;  // elements of the whole vector; of one block where the vector has one per rank
  std::string schedule;  // "" = the planner's choice
  int root = 0;
  bool in_place = false;
};

std::string describe(const Case& what, int ranks);

// Confined: what one rank reuses from case to case.
class CaseRunner {
 public:
  explicit CaseRunner(Communicator world) : world_(std::move(world)) {}

  // Runs the call, as every rank of the group does with the same case, and compares the result bit
  // for bit with the expected one; so the ranks agree with each other. Inputs of out-of-place
  // calls, outputs of ranks that receive nothing and the memory around must be unchanged. Returns
  // what is wrong, empty if nothing is.
  std::string run(const Case& what);

  // Elements of the vectors at a rank so that every chunk of the schedule is `segments` whole
  // segments plus `delta` elements long.
  std::size_t boundary_count(const Case& what, std::size_t segments, int delta);

 private:
  using Key = std::tuple<DType, ReduceOp, int>;

  const harness::Bytes& contribution(const Case& what, int rank);
  const harness::Bytes& reduction(const Case& what);
  void lay_out(const Case& what);
  Work start(const Case& what);
  std::string check(const Case& what);
  std::string check_result(const Case& what);
  std::size_t whole(const Case& what) const;

  Communicator world_;
  harness::Guarded in_;
  harness::Guarded out_;
  std::map<Key, harness::Bytes> contributions_;
  std::map<Key, harness::Bytes> reductions_;
};

}  // namespace syncline::conformance
