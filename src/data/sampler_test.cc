#include "syncline/data/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "syncline/status.h"

namespace syncline::data {
namespace {

using Indices = std::vector<std::uint64_t>;

SamplerOptions sequential() {
  SamplerOptions options;
  options.shuffle = false;
  return options;
}

SamplerOptions with_seed(std::uint64_t seed) {
  SamplerOptions options;
  options.seed = seed;
  return options;
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalidArgument);
    return error.what();
  }
  return "no error";
}

Indices drain(DistributedSampler& sampler, std::size_t batch_size) {
  Indices all;
  while (const auto batch = sampler.next(batch_size)) {
    all.insert(all.end(), batch->indices.begin(), batch->indices.end());
  }
  return all;
}

TEST(Sampler, SMP_01_FewerSamplesThanRanks) {
  for (const int replicas : {9, 11}) {
    Indices shares;
    std::size_t real = 0;
    for (int rank = 0; rank < replicas; ++rank) {
      const DistributedSampler sampler(4, replicas, rank, sequential());
      const Indices share = sampler.indices();
      ASSERT_EQ(share.size(), 1u);
      shares.push_back(share[0]);
      real += sampler.real_count();
    }
    const Indices expected = {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2};
    EXPECT_EQ(shares, Indices(expected.begin(), expected.begin() + replicas));
    EXPECT_EQ(real, 4u) << "padding must not be counted";
  }
}

TEST(Sampler, SMP_01_DropLastWithNothingLeftIsAnError) {
  SamplerOptions options = sequential();
  options.drop_last = true;
  const std::string message = message_of([&] { DistributedSampler(4, 9, 0, options); });
  EXPECT_NE(message.find("drop_last leaves no sample for 9 ranks"), std::string::npos) << message;
  DistributedSampler sampler(4, 1, 0, options);
  const std::string batch = message_of([&] { sampler.next(10); });
  EXPECT_NE(batch.find("needs 10 samples"), std::string::npos) << batch;
}

TEST(Sampler, SMP_01_BatchLargerThanTheData) {
  DistributedSampler sampler(4, 1, 0, sequential());
  const auto batch = sampler.next(10);
  ASSERT_TRUE(batch.has_value());
  EXPECT_EQ(batch->indices, (Indices{0, 1, 2, 3}));
  EXPECT_EQ(batch->real_count, 4u);
  EXPECT_FALSE(sampler.next(10).has_value());
}

// Fixed for ever: checkpoints and other languages rely on these bytes.
TEST(Sampler, SMP_03_OrderIsPinned) {
  EXPECT_EQ(epoch_order(8, 0, 0), (Indices{5, 4, 7, 1, 2, 6, 3, 0}));
  EXPECT_EQ(epoch_order(8, 0, 1), (Indices{5, 0, 7, 1, 4, 3, 2, 6}));
  EXPECT_EQ(epoch_order(8, 7, 0), (Indices{5, 6, 2, 3, 0, 4, 7, 1}));
  EXPECT_EQ(epoch_order(1, 7, 0), Indices{0});
  EXPECT_EQ(epoch_order(0, 7, 0), Indices{});
}

TEST(Sampler, SMP_03_EpochsDifferAndCoverEverything) {
  for (const bool call_set_epoch : {true, false}) {
    DistributedSampler first(8, 2, 0, with_seed(5));
    DistributedSampler second(8, 2, 1, with_seed(5));
    std::set<Indices> orders;
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      if (call_set_epoch) first.set_epoch(epoch);
      if (call_set_epoch) second.set_epoch(epoch);
      EXPECT_EQ(first.epoch(), epoch) << "advances by itself";
      const Indices zero = drain(first, 2);
      const Indices one = drain(second, 2);
      Indices both = zero;
      both.insert(both.end(), one.begin(), one.end());
      orders.insert(both);
      std::sort(both.begin(), both.end());
      EXPECT_EQ(both, (Indices{0, 1, 2, 3, 4, 5, 6, 7}));
    }
    EXPECT_EQ(orders.size(), 3u) << "each epoch has its own order";
  }
}

TEST(Sampler, SMP_10_DroppedSamplesChange) {
  for (const int replicas : {1, 3}) {
    SamplerOptions options = with_seed(1);
    options.drop_last = true;
    std::map<std::uint64_t, int> seen;
    std::set<std::set<std::uint64_t>> dropped_sets;
    std::vector<DistributedSampler> samplers;
    for (int rank = 0; rank < replicas; ++rank) samplers.emplace_back(950, replicas, rank, options);
    for (int epoch = 0; epoch < 20; ++epoch) {
      std::set<std::uint64_t> taken;
      for (auto& sampler : samplers) {
        for (const auto index : drain(sampler, 300 / static_cast<std::size_t>(replicas))) {
          taken.insert(index);
          ++seen[index];
        }
      }
      ASSERT_EQ(taken.size(), 900u);
      dropped_sets.insert(taken);
    }
    EXPECT_EQ(dropped_sets.size(), 20u);
    ASSERT_EQ(seen.size(), 950u);
    for (const auto& [index, times] : seen) EXPECT_GE(times, 12) << "sample " << index;
  }
}

TEST(Sampler, GlobalBatchDoesNotDependOnRanks) {
  for (const int replicas : {1, 2, 4, 8}) {
    std::set<std::uint64_t> batch;
    for (int rank = 0; rank < replicas; ++rank) {
      DistributedSampler sampler(1000, replicas, rank, with_seed(3));
      sampler.next(64 / static_cast<std::size_t>(replicas));
      const auto second = sampler.next(64 / static_cast<std::size_t>(replicas));
      batch.insert(second->indices.begin(), second->indices.end());
    }
    const Indices order = epoch_order(1000, 3, 0);
    EXPECT_EQ(batch, std::set<std::uint64_t>(order.begin() + 64, order.begin() + 128));
  }
}

// Every size, world and resume point: real samples come once, ranks stay in step, padding is
// marked.
TEST(Sampler, EverySampleOnceThroughAResize) {
  for (const bool padding : {true, false}) {
    for (const std::uint64_t size : {1, 4, 10, 37}) {
      for (const int before : {1, 3, 5}) {
        for (const int after : {1, 2, 4, 7}) {
          std::map<std::uint64_t, int> seen;
          const auto count = [&seen](const SampleBatch& batch) {
            for (std::size_t i = 0; i < batch.real_count; ++i) ++seen[batch.indices[i]];
          };
          SamplerOptions options = with_seed(9);
          options.padding = padding;
          SamplerState state;
          for (int rank = 0; rank < before; ++rank) {
            DistributedSampler sampler(size, before, rank, options);
            if (const auto batch = sampler.next(2)) count(*batch);
            if (sampler.epoch() == 0) state = sampler.state_dict();
          }
          options.seed = 12345;  // the state's seed counts
          std::set<std::size_t> lengths;
          for (int rank = 0; rank < after && state.sample_in_epoch < size; ++rank) {
            DistributedSampler sampler(size, after, rank, options);
            sampler.load_state_dict(state);
            sampler.set_epoch(0);  // the current epoch: must not rewind
            lengths.insert(sampler.indices().size());
            while (const auto batch = sampler.next(3)) count(*batch);
            EXPECT_EQ(sampler.epoch(), 1u);
          }
          ASSERT_EQ(seen.size(), size);
          for (const auto& [index, times] : seen) ASSERT_EQ(times, 1) << index;
          if (padding) {
            EXPECT_LE(lengths.size(), 1u) << "padding keeps ranks equal";
          }
        }
      }
    }
  }
}

TEST(Sampler, StateOfOtherDataIsRefused) {
  SamplerOptions options;
  options.dataset_digest = 1;
  DistributedSampler sampler(10, 2, 0, options);
  SamplerState state = sampler.state_dict();
  state.dataset_size = 11;
  EXPECT_NE(message_of([&] { sampler.load_state_dict(state); }).find("11 samples"),
            std::string::npos);
  state = sampler.state_dict();
  state.dataset_digest = 2;
  EXPECT_NE(message_of([&] { sampler.load_state_dict(state); }).find("digests differ"),
            std::string::npos);
  state = sampler.state_dict();
  state.sample_in_epoch = 11;
  EXPECT_NE(message_of([&] { sampler.load_state_dict(state); }), "no error");
}

TEST(Sampler, BadArgumentsAreRefused) {
  EXPECT_NE(message_of([] { DistributedSampler(0, 1, 0); }).find("empty"), std::string::npos);
  EXPECT_NE(message_of([] { DistributedSampler(5, 2, 2); }).find("rank 2"), std::string::npos);
  EXPECT_NE(message_of([] { DistributedSampler(5, 0, 0); }), "no error");
  DistributedSampler sampler(5, 1, 0);
  EXPECT_NE(message_of([&] { sampler.next(0); }), "no error");
}

// A finished epoch saved between its last batch and the next call resumes with the next epoch.
TEST(Sampler, StateAtTheEndOfAnEpoch) {
  DistributedSampler sampler(6, 2, 0, with_seed(2));
  sampler.next(3);
  const SamplerState state = sampler.state_dict();
  EXPECT_EQ(state.sample_in_epoch, 6u);
  DistributedSampler other(6, 1, 0);
  other.load_state_dict(state);
  EXPECT_FALSE(other.next(3).has_value());
  EXPECT_EQ(other.epoch(), 1u);
  EXPECT_EQ(drain(other, 4), epoch_order(6, 2, 1));
}

}  // namespace
}  // namespace syncline::data
