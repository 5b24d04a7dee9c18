// The flight recorder: at most 30 ns an operation, and at most a tenth of the smallest all_reduce
// (1 KiB between two threads takes well below a microsecond; both of them record).
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "base/flight_memory.h"
#include "base/flight_recorder.h"
#include "syncline/session.h"

namespace syncline {
namespace {

double nanoseconds_of(clockid_t clock, const std::function<void()>& work, int times) {
  const auto now = [clock] {
    timespec time{};
    ::clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
  };
  const double begin = now();
  work();
  return (now() - begin) / times;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Median cost of noting one operation over many rounds.
double noting_cost(flight::FlightRecorder& recorder, std::size_t group) {
  constexpr int kOperations = 20000;
  constexpr int kRounds = 51;
  static std::uint64_t op = 0;
  flight::FingerprintBytes what{};
  const std::string name = "layer1.weight";
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    const auto note = [&] {
      for (int i = 0; i < kOperations; ++i) {
        ++op;
        what[8] = static_cast<std::byte>(op);
        recorder.called(group, op);
        const std::uint64_t start = recorder.started(1, op, what, name);
        recorder.done(group, 1, op, what, start, false);
      }
    };
    rounds.push_back(nanoseconds_of(CLOCK_THREAD_CPUTIME_ID, note, kOperations));
  }
  return median(rounds);
}

// Other programs on the same core only ever add, for seconds at a time: the lowest of some medians
// is the recorder's own.
TEST(FlightCost, ThirtyNanosecondsAnOperation) {
  constexpr std::size_t kTriesMax = 100;
  const auto memory = flight::private_memory(flight::image_bytes(
      flight::FlightRecorder::kRecords, flight::FlightRecorder::kCallerRecords));
  flight::FlightRecorder recorder(memory->bytes, {0, 2, "cost", "host"});
  const std::size_t group = recorder.group_made(1, 0, 2);
  std::vector<double> costs;
  while (costs.empty() || (costs.back() > 30 && costs.size() < kTriesMax)) {
    if (!costs.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(150));
    costs.push_back(noting_cost(recorder, group));
  }
  std::printf("flight recorder: %.1f ns an operation (lowest of %zu medians, highest %.1f)\n",
              *std::min_element(costs.begin(), costs.end()), costs.size(),
              *std::max_element(costs.begin(), costs.end()));
  EXPECT_LE(*std::min_element(costs.begin(), costs.end()), 30.0);
}

// Two ranks of one process; the second answers until a round says stop.
class Pair {
 public:
  explicit Pair(bool recording) {
    ::setenv("SYNCLINE_FLIGHT", recording ? "on" : "off", 1);
    ranks_ = init_threads(2);
  }

  double round(int times) {
    std::thread other([&] { reduce(ranks_[1], times); });
    const double cost = nanoseconds_of(
        CLOCK_MONOTONIC, [&] { reduce(ranks_[0], times); }, times);
    other.join();
    return cost;
  }

 private:
  static void reduce(Session& session, int times) {
    std::vector<float> data(256, 1.0f);
    for (int i = 0; i < times; ++i) session.world().all_reduce({data.data(), data.size()}).wait();
  }

  std::vector<Session> ranks_;
};

// Cost with the recorder over cost without: median over alternating pairs of rounds.
double cost_ratio(Pair& with, Pair& without) {
  constexpr int kTimes = 1000;
  constexpr int kPairs = 201;
  std::vector<double> on;
  std::vector<double> off;
  std::vector<double> ratios;
  for (int round = 0; round < kPairs; ++round) {
    const bool first = round % 2 == 0;
    const double a = (first ? with : without).round(kTimes);
    const double b = (first ? without : with).round(kTimes);
    on.push_back(first ? a : b);
    off.push_back(first ? b : a);
    ratios.push_back(on.back() / off.back());
  }
  std::printf("1 KiB all_reduce: %.0f ns recorded, %.0f ns not; ratio %.3f (median of %d pairs)\n",
              median(on), median(off), median(ratios), kPairs);
  return median(ratios);
}

TEST(FlightCost, ATenthOfOneKibibyte) {
  constexpr double kRatioMax = 1.10;
  Pair with(true);
  Pair without(false);
  ::unsetenv("SYNCLINE_FLIGHT");
  for (Pair* pair : {&with, &without}) pair->round(5000);
  double lowest = 100;
  for (int tries = 0; tries < 4 && lowest > kRatioMax; ++tries) {
    lowest = std::min(lowest, cost_ratio(with, without));
  }
  EXPECT_LE(lowest, kRatioMax);
}

}  // namespace
}  // namespace syncline
