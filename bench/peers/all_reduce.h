// The measuring loop that all peers share: in place, f32 sum, back to back, results verified.
#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace peers {

struct Settings {
  std::size_t bytes = 0;
  int batches = 15;  // the median over batches is reported
  int warmup = 5;    // operations
  double batch_seconds = 0.02;
  double seconds = 10;  // of all batches: slow operations have fewer
};

// Of this process, all threads, user and system.
inline double cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// `all_reduce(data, count)` blocks; `share(value)` gives every rank rank 0's value. Prints one JSON
// line on each rank: the median time of one operation in microseconds, the number of wrong elements
// and the processor time of this rank's `operations`.
template <class AllReduce, class Share>
int measure(Settings settings, int rank, int ranks, AllReduce all_reduce, Share share) {
  using Clock = std::chrono::steady_clock;
  const std::size_t count = settings.bytes / sizeof(float);
  std::vector<float> data(count);
  double cpu = 0;
  const auto fill = [&] { std::fill(data.begin(), data.end(), static_cast<float>(rank + 1)); };
  const auto seconds_of = [&](int operations) {
    const double cpu_before = cpu_seconds();
    const auto start = Clock::now();
    for (int i = 0; i < operations; ++i) all_reduce(data.data(), count);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    cpu += cpu_seconds() - cpu_before;
    return seconds;
  };
  fill();
  const bool slow = share(seconds_of(1)) > 0.1;
  if (!slow) seconds_of(settings.warmup);
  fill();
  const int tries = slow ? 1 : 3;
  const double guess = share(std::max(seconds_of(tries) / tries, 1e-7));
  const int operations = static_cast<int>(std::clamp(settings.batch_seconds / guess, 2.0, 20000.0));
  settings.batches = static_cast<int>(
      std::clamp(settings.seconds / (guess * operations), 3.0, settings.batches * 1.0));
  std::vector<double> batches;
  std::size_t wrong = 0;
  cpu = 0;
  for (int batch = 0; batch < settings.batches; ++batch) {
    std::fill(data.begin(), data.end(), 0.0f);
    batches.push_back(seconds_of(operations) / operations);
    fill();
    all_reduce(data.data(), count);
    const float expected = static_cast<float>(ranks * (ranks + 1) / 2);
    wrong += static_cast<std::size_t>(
        std::count_if(data.begin(), data.end(), [&](float x) { return x != expected; }));
  }
  std::sort(batches.begin(), batches.end());
  std::printf(
      "{\"bytes\": %zu, \"rank\": %d, \"p50_us\": %.3f, \"wrong\": %zu, \"cpu_s\": %.6f, "
      "\"operations\": %d}\n",
      settings.bytes, rank, batches[batches.size() / 2] * 1e6, wrong, cpu,
      operations * settings.batches);
  return wrong == 0 ? 0 : 1;
}

inline Settings parse(int argc, char** argv) {
  if (argc != 2 || std::atoll(argv[1]) < 4) {
    std::fprintf(stderr, "usage: %s BYTES\n", argv[0]);
    std::exit(2);
  }
  Settings settings;
  settings.bytes = static_cast<std::size_t>(std::atoll(argv[1]));
  return settings;
}

}  // namespace peers
