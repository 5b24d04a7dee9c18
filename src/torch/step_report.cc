#include "torch/step_report.h"

#include <utility>

namespace syncline::torch_detail {

void StepReport::launch(Communicator& comm, const std::vector<char>& used, const Mine& mine,
                        const CallOptions& options) {
  sum_ = std::make_shared<std::vector<double>>(used.begin(), used.end());
  sum_->push_back(mine.samples);
  sum_->push_back(mine.active && mine.weighted ? 1 : 0);
  sum_->push_back(mine.active ? 1 : 0);
  sum_->push_back(mine.failed ? 1 : 0);
  sum_->push_back(mine.failed ? comm.rank() : 0);
  work_ = comm.all_reduce(TensorView(sum_->data(), sum_->size()), ReduceOp::kSum, options);
  work_.on_complete([keep = sum_](const Status&) {});
}

void StepReport::wait() {
  Work work = std::exchange(work_, Work());
  work.wait();
  if (at_end(kFailed) > 0) {
    const int rank = static_cast<int>(at_end(kFailedRanks));
    const bool one = at_end(kFailed) == 1;
    throw Error(Status(Code::kCancelled,
                       "backward: " +
                           (one ? "rank " + std::to_string(rank) : std::string("several ranks")) +
                           " threw during this backward, so no rank got averaged gradients; see "
                           "the error there, then zero the gradients and repeat the step")
                    .with_peer(one ? rank : -1));
  }
  if (at_end(kWeighted) != 0 && at_end(kWeighted) != at_end(kActive)) {
    throw Error(Status(Code::kMismatch,
                       "backward: some ranks called set_samples() and others did not; call it on "
                       "every rank (0 for a rank without samples) or on none"));
  }
}

}  // namespace syncline::torch_detail
