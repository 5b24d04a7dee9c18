// Reducer, continued: ranks with unequal numbers of batches.
#include <algorithm>

#include "torch/reducer.h"

namespace syncline::torch_detail {
namespace {

enum Header { kActive, kBuffers, kWeighted, kHeaderSize };

}  // namespace

void Reducer::begin_join(JoinDivisor divisor) {
  if (joining_ || step_open_) {
    throw Error(Status(Code::kFailedPrecondition,
                       joining_ ? "join: the model is inside another join()"
                                : "join: call it between steps, not between forward and backward"));
  }
  joining_ = true;
  divisor_ = divisor;
  join_steps_ = 0;
}

void Reducer::cancel_join(std::exception_ptr error) {
  joining_ = false;
  if (error) deferred_ = error;
}

void Reducer::send_join_header(bool active, bool with_buffers) {
  header_ = std::make_shared<std::vector<double>>(kHeaderSize, 0.0);
  if (active) {
    (*header_)[kActive] = 1;
    (*header_)[kBuffers] = with_buffers ? 1 : 0;
    (*header_)[kWeighted] = weighted() ? 1 : 0;
    ++join_steps_;
  }
  header_work_ = comm_.all_reduce(TensorView(header_->data(), header_->size()), ReduceOp::kSum,
                                  call_options("join"));
  header_work_.on_complete([keep = header_](const Status&) {});
}

void Reducer::shadow_step() {
  const bool with_weights = (*header_)[kWeighted] > 0;
  buckets_.begin({with_weights, 0.0});
  for (std::size_t i = 0; i < parameters_.size(); ++i) buckets_.contribute_zeros(i);
  report_.launch(comm_, std::vector<char>(parameters_.size(), 0), {false, with_weights, 0, false},
                 call_options("report"));
  buckets_.wait();
  report_.wait();
  reset_step();
}

int Reducer::finish_join() {
  if (alone()) {
    joining_ = false;
    return 0;
  }
  if (step_open_) {  // a forward without its backward: the others count on this rank's buckets
    header_work_.wait();
    shadow_step();
  }
  for (;;) {
    send_join_header(false, false);
    header_work_.wait();
    if ((*header_)[kActive] == 0) break;
    if ((*header_)[kBuffers] > 0) broadcast_buffers();
    shadow_step();
  }
  std::vector<std::int64_t> steps(static_cast<std::size_t>(comm_.size()));
  comm_
      .all_gather(ConstTensorView(&join_steps_, 1), TensorView(steps.data(), steps.size()),
                  call_options("joined"))
      .wait();
  // The last of the maxima: PyTorch, too, takes the highest rank.
  const auto longest = std::max_element(steps.rbegin(), steps.rend());
  const int last = static_cast<int>(steps.rend() - longest) - 1;
  broadcast_values(comm_, values_, last, call_options("joined"));
  joining_ = false;
  buffers_due_ = false;
  return last;
}

}  // namespace syncline::torch_detail
