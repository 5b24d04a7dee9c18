#include "syncline/data/sampler.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/splitmix.h"
#include "syncline/status.h"

namespace syncline::data {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(Status(Code::kInvalidArgument, "sampler: " + message));
}

}  // namespace

std::vector<std::uint64_t> epoch_order(std::uint64_t size, std::uint64_t seed,
                                       std::uint64_t epoch) {
  std::vector<std::uint64_t> order(size);
  for (std::uint64_t i = 0; i < size; ++i) order[i] = i;
  const std::uint64_t key = splitmix(splitmix(seed + kSplitmixStep) + epoch * kSplitmixStep);
  for (std::uint64_t i = size; i-- > 1;) {
    const auto product =
        static_cast<unsigned __int128>(splitmix(key + i * kSplitmixStep)) * (i + 1);
    std::swap(order[i], order[static_cast<std::uint64_t>(product >> 64)]);
  }
  return order;
}

DistributedSampler::DistributedSampler(std::uint64_t size, int num_replicas, int rank,
                                       SamplerOptions options)
    : size_(size),
      replicas_(static_cast<std::uint64_t>(num_replicas)),
      rank_(static_cast<std::uint64_t>(rank)),
      options_(options) {
  if (size == 0) refuse("the data set is empty; check the path it was read from");
  if (num_replicas < 1 || rank < 0 || rank >= num_replicas) {
    refuse("rank " + std::to_string(rank) + " is not one of " + std::to_string(num_replicas) +
           " replicas; pass rank() and world_size() of the session");
  }
  if (options.drop_last && size < replicas_) {
    refuse("drop_last leaves no sample for " + std::to_string(num_replicas) +
           " ranks: the data set has " + std::to_string(size) +
           "; turn drop_last off or start fewer ranks");
  }
  state_.seed = options.seed;
  state_.dataset_size = size;
  state_.dataset_digest = options.dataset_digest;
}

void DistributedSampler::set_epoch(std::uint64_t epoch) {
  if (epoch == state_.epoch) return;
  state_.epoch = epoch;
  state_.sample_in_epoch = 0;
  order_.clear();
}

void DistributedSampler::advance_epoch() { set_epoch(state_.epoch + 1); }

// Position behind the last one that some rank takes in this epoch; beyond size_ lies padding.
std::uint64_t DistributedSampler::epoch_end(std::uint64_t global_batch) const {
  const std::uint64_t begin = state_.sample_in_epoch;
  const std::uint64_t rest = size_ - begin;
  if (options_.drop_last) return begin + rest / global_batch * global_batch;
  if (options_.padding) return begin + (rest + replicas_ - 1) / replicas_ * replicas_;
  return size_;
}

void DistributedSampler::prepare_order() const {
  if (options_.shuffle && order_.empty()) order_ = epoch_order(size_, state_.seed, state_.epoch);
}

std::uint64_t DistributedSampler::sample_at(std::uint64_t position) const {
  const std::uint64_t wrapped = position % size_;
  return options_.shuffle ? order_[wrapped] : wrapped;
}

// This rank's share of the positions [begin, end).
SampleBatch DistributedSampler::take(std::uint64_t begin, std::uint64_t end) const {
  prepare_order();
  SampleBatch batch;
  for (std::uint64_t position = begin + rank_; position < end; position += replicas_) {
    batch.indices.push_back(sample_at(position));
    if (position < size_) ++batch.real_count;
  }
  return batch;
}

std::optional<SampleBatch> DistributedSampler::next(std::size_t batch_size) {
  if (batch_size == 0) refuse("batch_size 0 would never end; pass at least 1");
  if (batch_size > UINT64_MAX / 2 / replicas_) refuse("batch_size is beyond any memory");
  const std::uint64_t global_batch = batch_size * replicas_;
  if (options_.drop_last && size_ < global_batch) {
    refuse("drop_last with batch_size " + std::to_string(batch_size) + " on " +
           std::to_string(replicas_) + " ranks needs " + std::to_string(global_batch) +
           " samples for one step, the data set has " + std::to_string(size_) +
           "; turn drop_last off or make the batch smaller");
  }
  const std::uint64_t begin = state_.sample_in_epoch;
  const std::uint64_t end = std::min(begin + global_batch, epoch_end(global_batch));
  SampleBatch batch = take(begin, end);
  if (batch.indices.empty()) {
    advance_epoch();
    return std::nullopt;
  }
  state_.sample_in_epoch = std::min(end, size_);
  return batch;
}

std::vector<std::uint64_t> DistributedSampler::indices() const {
  return take(state_.sample_in_epoch, epoch_end(replicas_)).indices;
}

std::size_t DistributedSampler::real_count() const {
  const std::uint64_t end = std::min(epoch_end(replicas_), size_);
  const std::uint64_t first = state_.sample_in_epoch + rank_;
  return first >= end ? 0 : static_cast<std::size_t>((end - first - 1) / replicas_ + 1);
}

void DistributedSampler::load_state_dict(const SamplerState& state) {
  if (state.dataset_size != size_ || state.sample_in_epoch > size_) {
    refuse("the state is of a data set of " + std::to_string(state.dataset_size) +
           " samples at sample " + std::to_string(state.sample_in_epoch) + ", this one has " +
           std::to_string(size_) + "; resume with the data of the checkpoint");
  }
  const std::uint64_t own = options_.dataset_digest;
  if (own != 0 && state.dataset_digest != 0 && own != state.dataset_digest) {
    refuse(
        "the state is of other data of the same size (digests differ); resume with the data of "
        "the checkpoint");
  }
  state_ = state;
  state_.dataset_digest = own != 0 ? own : state.dataset_digest;
  order_.clear();
}

}  // namespace syncline::data
