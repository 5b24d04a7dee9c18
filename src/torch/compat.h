// The one place where differences between LibTorch versions (1.13 .. 2.x) are hidden.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <functional>
#include <memory>

namespace syncline::torch_detail {

using NoGrad = c10::NoGradGuard;

inline bool grad_enabled() { return c10::GradMode::is_enabled(); }

// Runs once, after all gradients of the backward that is running on this thread are final.
// Destroyed without running when that backward throws.
inline void at_end_of_backward(std::function<void()> callback) {
  ::torch::autograd::Engine::get_default_engine().queue_callback(std::move(callback));
}

// The node that adds into .grad. The tensor holds it weakly: keep it, or its hooks go.
inline std::shared_ptr<::torch::autograd::Node> grad_accumulator(const at::Tensor& leaf) {
  return ::torch::autograd::impl::grad_accumulator(leaf);
}

// The same memory without autograd and with an own version counter: writing to it does not
// invalidate what a pending backward has saved.
inline at::Tensor silent_alias(const at::Tensor& tensor) { return tensor.variable_data(); }

}  // namespace syncline::torch_detail
