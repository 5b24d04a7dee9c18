// Which sample goes to which rank, in which order: PyTorch's DistributedSampler with elastic
// resume.
#ifndef SYNCLINE_DATA_SAMPLER_H_
#define SYNCLINE_DATA_SAMPLER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace syncline {
namespace data {

// The order of one epoch: a permutation of 0 .. size-1 that depends on nothing but its arguments,
// equal on every machine and for every number of ranks. Fisher-Yates (Durstenfeld 1964) over
// SplitMix64 (Steele, Lea, Flood 2014), all arithmetic modulo 2^64:
//   mix(z): z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9; z = (z ^ z >> 27) * 0x94d049bb133111eb;
//           return z ^ z >> 31
//   key = mix(mix(seed + G) + epoch * G), G = 0x9e3779b97f4a7c15
//   order = 0 .. size-1; for i = size-1 down to 1: swap(order[i], order[j]), where
//   j = (mix(key + i * G) * (i + 1)) >> 64, the product taken in 128 bits.
std::vector<std::uint64_t> epoch_order(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch);

struct SamplerOptions {
  bool shuffle = true;     // false: 0, 1, 2, ... in every epoch
  std::uint64_t seed = 0;  // the same on all ranks
  // Leaves out the samples that do not fill a batch on every rank. Shuffled, that is another set
  // each epoch; with shuffle = false it is the same tail each time, since that order is a promise.
  bool drop_last = false;
  // Gives every rank equally many samples by starting the order again, as PyTorch does; a batch
  // says how many of its samples are real. false: some ranks get one sample (and maybe one batch)
  // less.
  bool padding = true;
  std::uint64_t dataset_digest = 0;  // any fingerprint of the data set; 0 = unknown, not compared
};

// Where a sampler stands; the same on all ranks. Plain numbers, to be kept in a checkpoint.
struct SamplerState {
  std::uint64_t epoch = 0;
  std::uint64_t sample_in_epoch = 0;  // samples that all ranks together have consumed in this epoch
  std::uint64_t seed = 0;
  std::uint64_t dataset_size = 0;
  std::uint64_t dataset_digest = 0;
};

struct SampleBatch {
  std::vector<std::uint64_t> indices;
  // The first real_count indices count; the rest are padding that another rank has as well. Leave
  // them out of sums and accuracies.
  std::size_t real_count = 0;
};

// confined. Every sample comes exactly once per epoch over all ranks (padding and drop_last apart).
// Rank r of n takes positions r, r + n, r + 2n, ... of the epoch's order, so global batch k is the
// same set of samples however many ranks share it.
//
//   for (int epoch = 0; epoch < epochs; ++epoch) {
//     sampler.set_epoch(epoch);  // optional: a finished epoch moves on by itself
//     while (auto batch = sampler.next(64)) train(*batch);
//   }
class DistributedSampler {
 public:
  // Throws Error (invalid_argument) for an empty data set, a rank outside 0 .. num_replicas-1, and
  // for drop_last with fewer samples than ranks.
  DistributedSampler(std::uint64_t size, int num_replicas, int rank, SamplerOptions options = {});

  // Starts `epoch` from its beginning; does nothing if that epoch is current, so a loop that calls
  // it after load_state_dict() goes on in mid-epoch.
  void set_epoch(std::uint64_t epoch);
  std::uint64_t epoch() const { return state_.epoch; }

  // The next `batch_size` samples of this rank (fewer at the end of the epoch), or nothing once at
  // the end of the epoch; the following call begins the next epoch. All ranks must use the same
  // batch_size. Throws Error (invalid_argument) for batch_size 0, and for drop_last with too few
  // samples for even one batch on every rank.
  std::optional<SampleBatch> next(std::size_t batch_size);

  // What this rank gets in the rest of the current epoch, padding included; moves nothing.
  std::vector<std::uint64_t> indices() const;
  // The first real_count() elements of indices() are real.
  std::size_t real_count() const;

  SamplerState state_dict() const { return state_; }
  // Goes on where the state was taken, with any number of ranks: no skipped sample is read, the
  // rest of the epoch is shared out anew. Takes the state's seed. Throws Error (invalid_argument)
  // if the state belongs to another data set.
  void load_state_dict(const SamplerState& state);

 private:
  SampleBatch take(std::uint64_t begin, std::uint64_t end) const;
  std::uint64_t epoch_end(std::uint64_t global_batch) const;
  void prepare_order() const;
  std::uint64_t sample_at(std::uint64_t position) const;
  void advance_epoch();

  std::uint64_t size_;
  std::uint64_t replicas_;
  std::uint64_t rank_;
  SamplerOptions options_;
  SamplerState state_;
  mutable std::vector<std::uint64_t> order_;  // of state_.epoch, empty until needed
};

}  // namespace data
}  // namespace syncline

#endif  // SYNCLINE_DATA_SAMPLER_H_
