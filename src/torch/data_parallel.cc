#include "syncline/torch/data_parallel.h"

#include <ATen/core/ivalue.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <utility>

#include "torch/thread_replicas.h"

namespace syncline {
namespace torch_detail {
namespace {

using ::torch::autograd::AutogradContext;
using ::torch::autograd::variable_list;

// Rows per replica: as equal as possible, larger parts first; parts without rows are left out.
std::vector<std::int64_t> part_sizes(std::int64_t rows, int replicas) {
  std::vector<std::int64_t> sizes;
  for (int r = 0; r < replicas; ++r) {
    const std::int64_t size = rows / replicas + (r < rows % replicas ? 1 : 0);
    if (size > 0 || r == 0) sizes.push_back(size);
  }
  return sizes;
}

std::vector<at::Tensor> split(const at::Tensor& tensor, const std::vector<std::int64_t>& sizes) {
  if (tensor.dim() == 0) {
    throw Error(Status(Code::kInvalidArgument, "DataParallel: inputs need a batch dimension"));
  }
  return tensor.split_with_sizes(sizes, 0);
}

// One forward on its way to its backward.
struct Pass {
  std::shared_ptr<ThreadReplicas> replicas;
  std::vector<std::int64_t> sizes;
  std::vector<at::Tensor> inputs;   // leaves, one a replica
  std::vector<at::Tensor> outputs;  // their graphs end at `inputs` and the replicas' parameters
};

// Joins the replicas' graphs to the caller's: its backward runs theirs, each on its own thread.
struct JoinGraphs : public ::torch::autograd::Function<JoinGraphs> {
  // `anchor` requires a gradient, so that the output does even when the input does not.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& anchor, const std::shared_ptr<Pass>& pass) {
    (void)input;
    (void)anchor;
    context->saved_data["pass"] = c10::IValue::make_capsule(c10::make_intrusive<Holder>(pass));
    std::vector<at::Tensor> detached;
    for (const auto& output : pass->outputs) detached.push_back(output.detach());
    return at::cat(detached, 0);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto holder = context->saved_data["pass"].toCapsule();
    Pass& pass = *static_cast<Holder*>(holder.get())->pass;
    std::vector<std::int64_t> rows;
    for (const auto& output : pass.outputs) rows.push_back(output.size(0));
    const auto parts = gradients[0].split_with_sizes(rows, 0);
    for (auto& input : pass.inputs) input.mutable_grad().reset();
    pass.replicas->accumulate(static_cast<int>(parts.size()), [&](int r) {
      const auto i = static_cast<std::size_t>(r);
      if (!pass.outputs[i].requires_grad()) return;
      ::torch::autograd::backward({pass.outputs[i]}, {parts[i]}, /*retain_graph=*/true);
    });
    std::vector<at::Tensor> input_gradients;
    for (const auto& input : pass.inputs) {
      if (input.grad().defined()) input_gradients.push_back(input.grad());
    }
    const bool complete = input_gradients.size() == pass.inputs.size();
    return {complete ? at::cat(input_gradients, 0) : at::Tensor(), at::Tensor(), at::Tensor()};
  }

  struct Holder : public ::torch::CustomClassHolder {
    explicit Holder(std::shared_ptr<Pass> p) : pass(std::move(p)) {}
    std::shared_ptr<Pass> pass;
  };
};

}  // namespace
}  // namespace torch_detail

DataParallelBase::DataParallelBase(std::vector<torch_detail::ReplicaTensors> replicas)
    : replicas_(std::make_shared<torch_detail::ThreadReplicas>(std::move(replicas))) {}

DataParallelBase::~DataParallelBase() = default;

int DataParallelBase::threads() const { return replicas_->size(); }

at::Tensor DataParallelBase::forward(const at::Tensor& input, const Compute& compute) {
  auto pass = std::make_shared<torch_detail::Pass>();
  pass->replicas = replicas_;
  pass->sizes = torch_detail::part_sizes(input.dim() == 0 ? 0 : input.size(0), replicas_->size());
  const bool with_gradient = c10::GradMode::is_enabled();
  for (const auto& part : torch_detail::split(input, pass->sizes)) {
    pass->inputs.push_back(part.detach());
    if (with_gradient && input.requires_grad()) pass->inputs.back().set_requires_grad(true);
  }
  pass->outputs.resize(pass->inputs.size());
  replicas_->publish_buffers();
  replicas_->run(static_cast<int>(pass->inputs.size()), [&](int r) {
    const auto i = static_cast<std::size_t>(r);
    pass->outputs[i] = compute(r, {pass->inputs[i]});
  });
  const bool needs_graph = std::any_of(pass->outputs.begin(), pass->outputs.end(),
                                       [](const at::Tensor& t) { return t.requires_grad(); });
  if (!needs_graph) return at::cat(pass->outputs, 0);
  at::Tensor anchor = at::empty({0}, at::TensorOptions().dtype(at::kFloat));
  anchor.set_requires_grad(true);
  return torch_detail::JoinGraphs::apply(input, anchor, pass);
}

at::Tensor DataParallelBase::backward(const std::vector<at::Tensor>& inputs, const Compute& loss) {
  if (inputs.empty() || inputs[0].dim() == 0) {
    throw Error(Status(Code::kInvalidArgument, "DataParallel: inputs need a batch dimension"));
  }
  const std::int64_t rows = inputs[0].size(0);
  const auto sizes = torch_detail::part_sizes(rows, replicas_->size());
  std::vector<std::vector<at::Tensor>> parts(sizes.size());
  for (const auto& input : inputs) {
    const auto pieces = torch_detail::split(input, sizes);
    for (std::size_t r = 0; r < pieces.size(); ++r) parts[r].push_back(pieces[r]);
  }
  std::vector<at::Tensor> losses(sizes.size());
  replicas_->publish_buffers();
  replicas_->accumulate(static_cast<int>(sizes.size()), [&](int r) {
    const auto i = static_cast<std::size_t>(r);
    const double share = rows == 0 ? 1 : static_cast<double>(sizes[i]) / static_cast<double>(rows);
    at::Tensor scaled = loss(r, parts[i]).mul(share);
    losses[i] = scaled.detach();
    if (scaled.requires_grad()) ::torch::autograd::backward({scaled}, {});
  });
  at::Tensor total = losses[0];
  for (std::size_t i = 1; i < losses.size(); ++i) total = total.add(losses[i]);
  return total;
}

}  // namespace syncline
