#include "torch/grad_buckets.h"

#include <ATen/ScalarOps.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mul.h>

#include <exception>

#include "torch/bucket_plan.h"
#include "torch/compat.h"
#include "torch/dense.h"

namespace syncline::torch_detail {
namespace {

at::Tensor scalar(double value) { return at::native::wrapped_scalar_tensor(value); }

std::size_t to_bytes(double mib) { return static_cast<std::size_t>(mib * (1 << 20)); }

std::vector<std::int64_t> row_major_strides(at::IntArrayRef sizes) {
  std::vector<std::int64_t> strides(sizes.size(), 1);
  for (std::size_t i = sizes.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * std::max<std::int64_t>(sizes[i], 1);
  }
  return strides;
}

// A slice of `flat` that owns a share of its memory. Not an autograd view: Optimizer::zero_grad of
// LibTorch 1.13 detaches gradients in place, which views refuse.
at::Tensor slice_of(const at::Tensor& flat, std::int64_t offset, at::IntArrayRef sizes,
                    at::IntArrayRef strides) {
  auto* base = static_cast<char*>(flat.data_ptr()) + offset * flat.element_size();
  return at::from_blob(
      base, sizes, strides, [flat](void*) {}, flat.options());
}

}  // namespace

GradBuckets::GradBuckets(Communicator comm, std::string name, std::vector<at::Tensor> parameters,
                         const DdpOptions& options, bool keep_strides)
    : comm_(std::move(comm)),
      parameters_(std::move(parameters)),
      options_(options),
      keep_strides_(keep_strides),
      slots_(parameters_.size()) {
  std::vector<BucketItem> items;
  for (const auto& p : parameters_) items.push_back({*to_dtype(p.scalar_type()), p.numel()});
  const auto plans =
      plan_buckets(items, to_bytes(options.first_bucket_mb()), to_bytes(options.bucket_cap_mb()));
  for (const BucketPlan& plan : plans) {
    Bucket bucket;
    bucket.type = plan.type;
    bucket.count = plan.count;
    bucket.parameters = plan.items;
    bucket.name = name + ".bucket" + std::to_string(buckets_.size());
    std::int64_t offset = 0;
    for (const std::size_t item : plan.items) {
      slots_[item].bucket = buckets_.size();
      slots_[item].offset = offset;
      offset += items[item].count;
    }
    buckets_.push_back(std::move(bucket));
  }
}

void GradBuckets::allocate(Bucket& bucket) {
  const DType wire = mode_.weighted && is_16_bit(bucket.type) ? DType::kF32 : bucket.type;
  const at::ScalarType type = to_scalar_type(wire);
  if (bucket.flat.defined() && bucket.flat.scalar_type() == type) return;
  bucket.flat = at::empty({bucket.count}, at::TensorOptions().dtype(type));
  if (bucket.plan.schedule.empty()) {
    bucket.plan = comm_.plan(Collective::kAllReduce, wire, static_cast<std::size_t>(bucket.count));
    if (!options_.schedule().empty()) bucket.plan.schedule = options_.schedule();
  }
  for (const std::size_t index : bucket.parameters) {
    const at::Tensor& p = parameters_[index];
    Slot& slot = slots_[index];
    if (p.numel() == 0) {
      slot.view = at::empty(p.sizes(), bucket.flat.options());
    } else if (keep_strides_ && p.is_non_overlapping_and_dense()) {
      slot.view = slice_of(bucket.flat, slot.offset, p.sizes(), p.strides());
    } else {
      slot.view = slice_of(bucket.flat, slot.offset, p.sizes(), row_major_strides(p.sizes()));
    }
  }
}

void GradBuckets::begin(const StepMode& mode) {
  const NoGrad no_grad;
  mode_ = mode;
  next_ = 0;
  begun_ = monotonic_now();
  for (Bucket& bucket : buckets_) {
    allocate(bucket);
    bucket.missing = bucket.parameters.size();
    bucket.future = {};
    bucket.completed = std::make_shared<std::atomic<Nanos>>(0);
  }
  for (Slot& slot : slots_) {
    slot.contributed = false;
    slot.saved.reset();
  }
}

bool GradBuckets::is_view_mode(const Bucket& bucket, const at::Tensor& parameter) const {
  return options_.gradient_as_bucket_view() && parameter.numel() > 0 &&
         bucket.flat.scalar_type() == parameter.scalar_type();
}

void GradBuckets::fill(const Bucket& bucket, const Slot& slot, const at::Tensor& grad) {
  at::Tensor view = slot.view;
  const bool in_place = grad.data_ptr() == view.data_ptr();
  if (mode_.weighted ? mode_.weight == 0 : false) {
    view.zero_();
  } else if (!mode_.weighted && is_16_bit(bucket.type)) {
    if (!in_place) view.copy_(grad);
  } else {
    const at::Tensor factor = scalar(mode_.weighted ? mode_.weight : 1.0 / comm_.size());
    if (grad.scalar_type() == view.scalar_type()) {
      at::mul_out(view, grad, factor);
    } else {
      view.copy_(grad).mul_(factor);
    }
  }
}

void GradBuckets::contribute(std::size_t parameter, bool late) {
  const NoGrad no_grad;
  Slot& slot = slots_[parameter];
  const Bucket& bucket = buckets_[slot.bucket];
  const at::Tensor& grad = parameters_[parameter].grad();
  if (!grad.defined()) {
    slot.view.zero_();
  } else {
    if (late && is_view_mode(bucket, parameters_[parameter])) {
      if (grad.data_ptr() == slot.view.data_ptr()) slot.saved = grad.clone();
    }
    fill(bucket, slot, silent_alias(grad));
  }
  mark(slot);
}

void GradBuckets::contribute_zeros(std::size_t parameter) {
  const NoGrad no_grad;
  slots_[parameter].view.zero_();
  mark(slots_[parameter]);
}

void GradBuckets::mark(Slot& slot) {
  slot.contributed = true;
  --buckets_[slot.bucket].missing;
  while (next_ < buckets_.size() && buckets_[next_].missing == 0) {
    const std::size_t index = next_++;
    launch(buckets_[index], index);
  }
}

void GradBuckets::launch(Bucket& bucket, std::size_t index) {
  bucket.launched = monotonic_now();
  if (bucket.count == 0) return;
  GradBucket view;
  view.index = index;
  view.last = index + 1 == buckets_.size();
  view.tensor = bucket.flat;
  view.op = !mode_.weighted && is_16_bit(bucket.type) ? ReduceOp::kAverage : ReduceOp::kSum;
  for (const std::size_t p : bucket.parameters) view.parameters.push_back(parameters_[p]);
  bucket.future = run_hooks(hooks_.size(), std::move(view));
}

GradFuture GradBuckets::run_hooks(std::size_t depth, GradBucket bucket) {
  if (depth == 0) return all_reduce(bucket);
  return hooks_[depth - 1](std::move(bucket), [this, depth](GradBucket inner) {
    return run_hooks(depth - 1, std::move(inner));
  });
}

GradFuture GradBuckets::all_reduce(const GradBucket& bucket) {
  const Bucket& own = buckets_[bucket.index];
  require_dense_cpu(bucket.tensor, own.name);
  CallOptions call;
  call.name = own.name;
  call.schedule = options_.schedule();
  call.background = true;
  call.timeout = options_.timeout();
  const at::Tensor tensor = bucket.tensor.contiguous();
  Work work = comm_.all_reduce(view_of(tensor), bucket.op, call);
  work.on_complete([tensor, done = own.completed](const Status&) { done->store(monotonic_now()); });
  return {work, tensor};
}

void GradBuckets::wait() {
  const NoGrad no_grad;
  std::exception_ptr first;
  for (Bucket& bucket : buckets_) {
    if (!bucket.future.valid()) continue;
    try {
      const at::Tensor result = bucket.future.wait();
      if (result.data_ptr() != bucket.flat.data_ptr()) bucket.flat.copy_(result.view({-1}));
    } catch (...) {
      if (!first) first = std::current_exception();
    }
    bucket.future = {};
  }
  if (first) std::rethrow_exception(first);
}

void GradBuckets::write_back(const Bucket& bucket, const Slot& slot, const at::Tensor& parameter,
                             double total) {
  at::Tensor& grad = parameter.mutable_grad();
  const bool as_view = is_view_mode(bucket, parameter);
  if (as_view) {
    grad = slot.view;
  } else if (!grad.defined()) {
    grad = parameter.is_non_overlapping_and_dense()
               ? at::empty_strided(parameter.sizes(), parameter.strides(), parameter.options())
               : at::empty(parameter.sizes(), parameter.options());
  }
  at::Tensor target = grad.requires_grad() ? silent_alias(grad) : grad;
  if (!mode_.weighted) {
    if (!as_view) target.copy_(slot.view);
  } else if (total == 0) {
    target.zero_();
  } else {
    at::div_out(target, slot.view, scalar(total));
  }
}

void GradBuckets::commit(const std::vector<double>& used, double total) {
  const NoGrad no_grad;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (used[i] > 0) {
      write_back(buckets_[slot.bucket], slot, parameters_[i], total);
    } else if (slot.saved.defined()) {
      slot.view.copy_(slot.saved);
    }
    slot.saved.reset();
  }
}

void GradBuckets::abandon() {
  for (Bucket& bucket : buckets_) {
    bucket.flat.reset();
    bucket.future = {};
  }
}

std::vector<BucketStats> GradBuckets::stats() const {
  std::vector<BucketStats> result;
  for (const Bucket& bucket : buckets_) {
    BucketStats row;
    row.name = bucket.name;
    row.type = bucket.type;
    row.count = static_cast<std::size_t>(bucket.count);
    row.tensors = bucket.parameters.size();
    row.plan = bucket.plan;
    row.launched_us = static_cast<double>(bucket.launched - begun_) / kMicrosecond;
    const Nanos completed = bucket.completed->load();
    if (completed > 0) {
      row.measured_us = static_cast<double>(completed - bucket.launched) / kMicrosecond;
    }
    result.push_back(std::move(row));
  }
  return result;
}

}  // namespace syncline::torch_detail
