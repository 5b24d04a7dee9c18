// The measuring loop that all peers share: in place, f32 sum, back to back, results verified.
#pragma once

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
};

// `all_reduce(data, count)` blocks; `share(value)` gives every rank rank 0's value. Prints one JSON
// line on rank 0: the median time of one operation in microseconds and the number of wrong
// elements.
template <class AllReduce, class Share>
int measure(const Settings& settings, int rank, int ranks, AllReduce all_reduce, Share share) {
  using Clock = std::chrono::steady_clock;
  const std::size_t count = settings.bytes / sizeof(float);
  std::vector<float> data(count);
  const auto fill = [&] { std::fill(data.begin(), data.end(), static_cast<float>(rank + 1)); };
  const auto seconds_of = [&](int operations) {
    const auto start = Clock::now();
    for (int i = 0; i < operations; ++i) all_reduce(data.data(), count);
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  fill();
  seconds_of(settings.warmup);
  fill();
  const double guess = std::max(seconds_of(3) / 3, 1e-7);
  const int operations =
      static_cast<int>(share(std::clamp(settings.batch_seconds / guess, 2.0, 20000.0)));
  std::vector<double> batches;
  std::size_t wrong = 0;
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
  if (rank == 0) {
    std::printf("{\"bytes\": %zu, \"p50_us\": %.3f, \"wrong\": %zu}\n", settings.bytes,
                batches[batches.size() / 2] * 1e6, wrong);
  }
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
