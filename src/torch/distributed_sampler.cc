#include "syncline/torch/distributed_sampler.h"

#include <torch/serialize/archive.h>

#include <array>
#include <utility>

namespace syncline {
namespace {

using Field = std::uint64_t data::SamplerState::*;
constexpr std::array<std::pair<const char*, Field>, 5> kFields = {{
    {"epoch", &data::SamplerState::epoch},
    {"sample_in_epoch", &data::SamplerState::sample_in_epoch},
    {"seed", &data::SamplerState::seed},
    {"dataset_size", &data::SamplerState::dataset_size},
    {"dataset_digest", &data::SamplerState::dataset_digest},
}};

}  // namespace

TorchDistributedSampler::TorchDistributedSampler(std::size_t size, const Communicator& world,
                                                 data::SamplerOptions options)
    : replicas_(world.size()),
      rank_(world.rank()),
      options_(options),
      sampler_(size, replicas_, rank_, options) {}

void TorchDistributedSampler::reset(::c10::optional<std::size_t> new_size) {
  if (new_size && *new_size != sampler_.state_dict().dataset_size) {
    sampler_ = data::DistributedSampler(*new_size, replicas_, rank_, options_);
  }
}

TorchDistributedSampler::Batch TorchDistributedSampler::next(std::size_t batch_size) {
  const auto batch = sampler_.next(batch_size);
  if (!batch) return {};
  return std::vector<std::size_t>(batch->indices.begin(), batch->indices.end());
}

void TorchDistributedSampler::save(::torch::serialize::OutputArchive& archive) const {
  const data::SamplerState state = sampler_.state_dict();
  for (const auto& [name, field] : kFields) {
    archive.write(name, c10::IValue(static_cast<std::int64_t>(state.*field)));
  }
}

void TorchDistributedSampler::load(::torch::serialize::InputArchive& archive) {
  data::SamplerState state;
  for (const auto& [name, field] : kFields) {
    c10::IValue value;
    archive.read(name, value);
    state.*field = static_cast<std::uint64_t>(value.toInt());
  }
  sampler_.load_state_dict(state);
}

}  // namespace syncline
