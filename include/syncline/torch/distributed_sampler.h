// TorchDistributedSampler: syncline::data::DistributedSampler for torch::data::make_data_loader.
#ifndef SYNCLINE_TORCH_DISTRIBUTED_SAMPLER_H_
#define SYNCLINE_TORCH_DISTRIBUTED_SAMPLER_H_

// First: clang in C++20 mode needs IValue complete before its list type.
#include <ATen/core/ivalue.h>
#include <torch/data/samplers/base.h>

#include <cstddef>
#include <vector>

#include "syncline/communicator.h"
#include "syncline/data/sampler.h"

namespace syncline {

// Confined. Every sample exactly once per epoch over all ranks; the order depends on seed and epoch
// only. An epoch that ran to its end moves on by itself. Loaders ask ahead of what they deliver:
// take state_dict() between epochs, or count batches yourself.
//
// With padding (the default, as in PyTorch) all ranks get equally many batches, some samples twice:
// for evaluation pass SamplerOptions with padding = false, so that none is counted twice.
class TorchDistributedSampler : public ::torch::data::samplers::Sampler<> {
 public:
  using Base = ::torch::data::samplers::Sampler<>;
  using Batch = decltype(std::declval<Base&>().next(std::size_t{1}));

  TorchDistributedSampler(std::size_t size, const Communicator& world,
                          data::SamplerOptions options = {});

  void set_epoch(std::size_t epoch) { sampler_.set_epoch(epoch); }
  std::size_t epoch() const { return sampler_.epoch(); }
  data::SamplerState state_dict() const { return sampler_.state_dict(); }
  void load_state_dict(const data::SamplerState& state) { sampler_.load_state_dict(state); }

  // Keeps the place within an epoch (so a resumed epoch goes on); a new size starts epoch 0 of a
  // new data set.
  void reset(::c10::optional<std::size_t> new_size) override;
  Batch next(std::size_t batch_size) override;
  void save(::torch::serialize::OutputArchive& archive) const override;
  void load(::torch::serialize::InputArchive& archive) override;

 private:
  int replicas_;
  int rank_;
  data::SamplerOptions options_;
  data::DistributedSampler sampler_;
};

}  // namespace syncline

#endif  // SYNCLINE_TORCH_DISTRIBUTED_SAMPLER_H_
