// StopVote: ranks agree on the step after which all stop.
#pragma once

#include <cstdint>
#include <memory>

#include "syncline/communicator.h"

namespace syncline::tools {

// Externally synchronised. One small exchange a step, hidden behind the step's computing.
class StopVote {
 public:
  explicit StopVote(Communicator world) : world_(std::move(world)) {}

  // At the start of a step; does not block.
  void begin(bool mine) {
    auto vote = std::make_shared<std::int32_t>(mine ? 1 : 0);
    CallOptions options;
    options.name = "stop vote";
    options.background = true;
    work_ = world_.all_reduce(TensorView(vote.get(), 1), ReduceOp::kMax, options);
    work_.on_complete([vote](const Status&) {});  // the memory outlives the operation
    vote_ = std::move(vote);
  }

  // At the end of the step; blocks. True on every rank if any rank wanted to stop. Throws Error.
  bool end() {
    work_.wait();
    return *vote_ != 0;
  }

 private:
  Communicator world_;
  std::shared_ptr<std::int32_t> vote_;
  Work work_;
};

}  // namespace syncline::tools
