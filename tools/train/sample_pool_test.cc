// SamplePool: every sample of each epoch once, whoever takes it.
#include "tools/train/sample_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "syncline/session.h"

namespace syncline::tools {
namespace {

TEST(SamplePool, GivesEverySampleOnceAndMostToTheFast) {
  constexpr std::uint64_t kSamples = 1003, kEpochs = 3;
  std::mutex mutex;
  std::map<std::uint64_t, std::vector<int>> times;  // by epoch, of each sample
  std::vector<std::uint64_t> taken(3);
  std::vector<Session> sessions = init_threads(3);
  std::vector<std::thread> threads;
  for (Session& each : sessions) {
    threads.emplace_back([&, session = std::move(each)]() mutable {
      SamplePool pool(session.world(), kSamples);
      for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
        while (const auto share = pool.next(epoch, 10)) {
          if (session.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(2));
          const std::lock_guard lock(mutex);
          auto& seen = times[epoch];
          seen.resize(kSamples);
          for (std::uint64_t i = 0; i < share->count; ++i) ++seen.at(share->begin + i);
          taken[static_cast<std::size_t>(session.rank())] += share->count;
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& [epoch, seen] : times) EXPECT_EQ(seen, std::vector<int>(kSamples, 1)) << epoch;
  EXPECT_EQ(times.size(), kEpochs);
  EXPECT_LT(taken[1], kSamples * kEpochs / 2) << "the slow one took as many as the others";
}

}  // namespace
}  // namespace syncline::tools
