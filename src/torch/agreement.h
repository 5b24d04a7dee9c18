// What happens once, when a model is wrapped: all ranks compare what they brought, then take rank
// 0's values.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "syncline/communicator.h"

namespace syncline::torch_detail {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

struct Agreement {
  std::int64_t id = 0;         // the largest of the proposed ids
  bool strides_equal = false;  // every parameter has the same memory layout on all ranks
};

// Collective. Compares names, shapes, types and requires_grad, and `settings` (one line). Throws
// kMismatch on every rank, naming the first rank that differs from rank 0 and the first tensor.
Agreement agree(Communicator& comm, const NamedTensors& parameters, const NamedTensors& buffers,
                const std::string& settings, std::int64_t proposed_id);

// Collective. Copies the values of `root` to all ranks, any types, in pieces of about 32 MiB. Does
// not disturb a pending backward.
void broadcast_values(Communicator& comm, const std::vector<at::Tensor>& tensors, int root,
                      const CallOptions& options);

}  // namespace syncline::torch_detail
