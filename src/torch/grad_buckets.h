// GradBuckets: the memory in which gradients travel, and the exchange of one step.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "syncline/communicator.h"
#include "syncline/torch/comm_hook.h"
#include "syncline/torch/ddp_options.h"
#include "syncline/torch/step_stats.h"

namespace syncline::torch_detail {

// How one step combines gradients.
struct StepMode {
  // False: the plain mean. True: sum(weight * g) / total, where the total is known only at commit;
  // 16-bit floats then travel as f32.
  bool weighted = false;
  double weight = 1;  // weighted only; 0 contributes zeros, whatever .grad holds
};

// Externally synchronised; runs on the thread of backward. Within a step: begin, contribute for
// every parameter in any order (buckets start by themselves, always in index order), wait, commit.
class GradBuckets {
 public:
  // `parameters` are those with requires_grad. `keep_strides`: every rank has the same strides, so
  // slices may use them; else slices are row-major and elements meet by logical index.
  GradBuckets(Communicator comm, std::string name, std::vector<at::Tensor> parameters,
              const DdpOptions& options, bool keep_strides);

  void push_hook(CommHook hook) { hooks_.push_back(std::move(hook)); }
  bool has_hooks() const { return !hooks_.empty(); }

  void begin(const StepMode& mode);
  bool contributed(std::size_t parameter) const { return slots_[parameter].contributed; }
  // Copies this rank's .grad, or zeros when undefined. `late`: found unused at the end of backward.
  void contribute(std::size_t parameter, bool late);
  void contribute_zeros(std::size_t parameter);
  // Blocks until every bucket has completed, also after a failure; then throws the first one.
  void wait();
  // Writes results to .grad of parameters with used[i] > 0; leaves the others alone. Weighted:
  // divides by `total`, 0 gives zeros.
  void commit(const std::vector<double>& used, double total);
  // Forgets memory that running operations may still write to.
  void abandon();

  // Launch and completion times of the step, relative to begin().
  std::vector<BucketStats> stats() const;

 private:
  struct Slot {
    std::size_t bucket = 0;
    std::int64_t offset = 0;  // elements
    at::Tensor view;          // the slice, with the parameter's shape
    at::Tensor saved;         // bucket views only: .grad before an unused parameter's exchange
    bool contributed = false;
  };
  struct Bucket {
    DType type = DType::kF32;  // of the gradients
    std::int64_t count = 0;
    std::vector<std::size_t> parameters;
    at::Tensor flat;
    std::size_t missing = 0;
    GradFuture future;
    Nanos launched = 0;
    std::shared_ptr<std::atomic<Nanos>> completed = std::make_shared<std::atomic<Nanos>>(0);
    PlanInfo plan;
    std::string name;
  };

  static bool is_16_bit(DType type) { return type == DType::kF16 || type == DType::kBF16; }
  void allocate(Bucket& bucket);
  bool is_view_mode(const Bucket& bucket, const at::Tensor& parameter) const;
  void fill(const Bucket& bucket, const Slot& slot, const at::Tensor& grad);
  void mark(Slot& slot);
  void launch(Bucket& bucket, std::size_t index);
  GradFuture run_hooks(std::size_t depth, GradBucket bucket);
  GradFuture all_reduce(const GradBucket& bucket);
  void write_back(const Bucket& bucket, const Slot& slot, const at::Tensor& parameter,
                  double total);

  Communicator comm_;
  std::vector<at::Tensor> parameters_;
  DdpOptions options_;
  bool keep_strides_;
  std::vector<CommHook> hooks_;
  std::vector<Slot> slots_;      // one per parameter
  std::vector<Bucket> buckets_;  // in launch order
  StepMode mode_;
  std::size_t next_ = 0;  // first bucket not launched
  Nanos begun_ = 0;
};

}  // namespace syncline::torch_detail
