// Reducer: the state machine behind DistributedDataParallel.
//
// Collectives of a synchronised step, in this order on every rank, whatever happens on a rank:
//   [join header]  [buffers]  bucket 0 .. bucket n-1  report
// A step opens at the first forward after the last step, or else at its backward; it closes at the
// end of that backward. A backward that throws still sends the rest (zeros) and says so in the
// report, so that the other ranks fail in the same step and all are ready for the next one.
#pragma once

#include <ATen/core/Tensor.h>

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "syncline/communicator.h"
#include "syncline/torch/ddp_guards.h"
#include "torch/agreement.h"
#include "torch/compat.h"
#include "torch/grad_buckets.h"
#include "torch/step_report.h"

namespace syncline::torch_detail {

struct BackwardToken;

// Externally synchronised: forward and backward of one model run on one thread at a time.
class Reducer : public std::enable_shared_from_this<Reducer> {
 public:
  // Collective; throws Error.
  static std::shared_ptr<Reducer> create(const NamedTensors& parameters,
                                         const NamedTensors& buffers, const Communicator& world,
                                         DdpOptions options);
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  void before_forward(bool training);
  // A backward through `output` counts as one of this model even if it reaches no parameter.
  void watch(const at::Tensor& output);
  // Returns the former setting.
  bool set_sync(bool sync);
  void set_samples(std::int64_t n);
  void register_comm_hook(CommHook hook);

  void begin_join(JoinDivisor divisor);
  // Blocks until every rank has come here. Returns the rank whose model all hold.
  int finish_join();
  // `error` is thrown by the next forward; null: this rank leaves because of another exception.
  void cancel_join(std::exception_ptr error);
  bool joining() const { return joining_; }

  const StepStats& last_step() const { return stats_; }
  Communicator& communicator() { return comm_; }

  // From the autograd hooks.
  void on_backward();
  void on_gradient(std::size_t parameter, bool defined);
  void on_backward_end();  // sends what is left
  void on_exchange_end();  // waits for it and writes .grad
  void on_backward_thrown() noexcept;

 private:
  struct Parameter {
    std::string name;
    at::Tensor tensor;
    std::shared_ptr<::torch::autograd::Node> accumulator;
    std::uintptr_t hook = 0;
  };

  Reducer(Communicator comm, const NamedTensors& parameters, const NamedTensors& buffers,
          const DdpOptions& options, std::string name, bool keep_strides);
  void install_hooks();
  CallOptions call_options(const char* what) const;
  bool weighted() const;
  bool alone() const { return comm_.size() == 1 && !buckets_.has_hooks(); }

  void open_step();
  void send_join_header(bool active, bool with_buffers);
  void broadcast_buffers();
  void begin_exchange();
  void send_report(bool failed);
  void finish_exchange();
  void shadow_step();
  void reset_step();

  Communicator comm_;
  DdpOptions options_;
  std::string name_;
  std::vector<Parameter> parameters_;  // trainable
  std::vector<std::pair<std::string, at::Tensor>> frozen_;
  std::vector<at::Tensor> buffers_;
  std::vector<at::Tensor> values_;  // all parameters and buffers
  GradBuckets buckets_;
  StepReport report_;

  // Across steps.
  bool sync_ = true;
  bool buffers_due_ = false;
  std::int64_t samples_ = -1;  // of the next backward; -1 = never set
  double samples_total_ = 0;   // since the last step
  std::vector<char> used_;     // since the last step
  std::uint64_t steps_ = 0;
  StepStats stats_;
  std::exception_ptr deferred_;

  // Within a step, a backward.
  bool step_open_ = false;
  bool exchanging_ = false;  // the running backward synchronises
  bool report_sent_ = false;
  std::weak_ptr<BackwardToken> token_;  // alive while a backward of this model runs
  Nanos backward_begun_ = 0, backward_ended_ = 0;

  // join()
  bool joining_ = false;
  JoinDivisor divisor_ = JoinDivisor::kInitialWorldSize;
  std::int64_t join_steps_ = 0;
  std::shared_ptr<std::vector<double>> header_;
  Work header_work_;
};

}  // namespace syncline::torch_detail
