#include "tools/bench/measure.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/clock.h"
#include "plan/partition.h"
#include "tools/bench/across_ranks.h"
#include "tools/bench/bandwidth.h"
#include "tools/bench/bench_case.h"
#include "tools/bench/format.h"

namespace syncline::tools {
namespace {

constexpr double kBatchMicros =
    4;  // a sample lasts at least so long: a clock read is then below 1% of it
constexpr std::int64_t kBatchMax = 64;
// Samples that are compared one with the next must outlast a turn of the scheduler where ranks
// share cores; else a ratio says which of the two was put aside.
constexpr double kPairMicros = 1500;
constexpr std::int64_t kPairBatchMax = 4096;

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Operations per sample that lasts so long, the same on all ranks.
std::int64_t choose_batch(Communicator& world, BenchCase& test, int warmup, double micros,
                          std::int64_t batch_max) {
  const Nanos begin = monotonic_now();
  for (int i = 0; i < warmup; ++i) test.run();
  const double each_us = static_cast<double>(monotonic_now() - begin) / 1e3 / std::max(warmup, 1);
  const double slowest_us = max_over_ranks(world, std::max(each_us, 0.01));
  return std::clamp(static_cast<std::int64_t>(std::ceil(micros / slowest_us)), std::int64_t{1},
                    batch_max);
}

std::int64_t verify(Communicator& world, BenchCase& test, const CallOptions& call = {}) {
  test.prepare();
  test.run(call);
  return sum_over_ranks(world, test.count_wrong());
}

Timing time_case(Communicator& world, const BenchOptions& options, std::uint64_t bytes,
                 bool in_place) {
  BenchCase test(world, options, bytes, in_place);
  Timing timing;
  const bool check = options.check && options.kind != Collective::kBarrier;
  if (check) timing.wrong = verify(world, test);
  test.prepare();
  const std::int64_t batch = choose_batch(world, test, options.warmup, kBatchMicros, kBatchMax);
  std::vector<double> samples(static_cast<std::size_t>(options.iterations));
  world.barrier().wait();
  const double cpu_begin = cpu_seconds();
  const Nanos begin = monotonic_now();
  Nanos last = begin;
  for (double& sample : samples) {
    for (std::int64_t i = 0; i < batch; ++i) test.run();
    const Nanos now = monotonic_now();
    sample = static_cast<double>(now - last) / 1e3 / static_cast<double>(batch);
    last = now;
  }
  const double operations = static_cast<double>(batch) * options.iterations;
  timing.cpu_us = (cpu_seconds() - cpu_begin) * 1e6 / operations;
  timing.mean_us = max_over_ranks(world, static_cast<double>(last - begin) / 1e3 / operations);
  timing.min_us = percentile(samples, 0);
  timing.p50_us = percentile(samples, 0.5);
  timing.p99_us = percentile(samples, 0.99);
  timing.max_us = percentile(samples, 1);
  const Bandwidth speed = bandwidth(to_string(options.kind), world.size(),
                                    static_cast<double>(bytes), timing.mean_us * 1e-6);
  timing.algbw_gbs = speed.algbw_gbs;
  timing.busbw_gbs = speed.busbw_gbs;
  if (check) timing.wrong += verify(world, test);
  return timing;
}

double seconds_per_call(BenchCase& test, std::int64_t batch, const CallOptions& call) {
  const Nanos begin = monotonic_now();
  for (std::int64_t i = 0; i < batch; ++i) test.run(call);
  return static_cast<double>(monotonic_now() - begin) * 1e-9 / static_cast<double>(batch);
}

// Samples of both take turns, and so does which of them comes first.
FreeChoice compare_with_free(Communicator& world, const BenchOptions& options,
                             std::uint64_t bytes) {
  BenchCase test(world, options, bytes, !BenchCase::exists(options.kind, false));
  CallOptions fixed, free;
  fixed.reproducible = true;
  free.reproducible = false;
  FreeChoice result;
  result.schedule =
      world.plan(options.kind, options.type, bytes / size_of(options.type), free).schedule;
  if (options.check) result.wrong = verify(world, test, free);
  test.prepare();
  const std::int64_t batch = choose_batch(world, test, options.warmup, kPairMicros, kPairBatchMax);
  std::vector<double> times, ratios;
  for (int i = 0; i < options.iterations; ++i) {
    const bool fixed_first = i % 2 == 0;
    double first = seconds_per_call(test, batch, fixed_first ? fixed : free);
    double second = seconds_per_call(test, batch, fixed_first ? free : fixed);
    if (!fixed_first) std::swap(first, second);
    times.push_back(second * 1e6);
    ratios.push_back(first / second);
  }
  result.p50_us = percentile(times, 0.5);
  result.ratio = percentile(ratios, 0.5);
  result.ratio_p10 = percentile(ratios, 0.1);
  result.ratio_p90 = percentile(ratios, 0.9);
  if (options.check) result.wrong += verify(world, test, free);
  return result;
}

}  // namespace

Row measure(Communicator& world, const BenchOptions& options, std::uint64_t bytes) {
  const auto total = static_cast<std::size_t>(bytes / size_of(options.type));
  const bool in_blocks = plan::has_blocks(options.kind);
  Row row;
  row.bytes = bytes;
  row.count = in_blocks ? total / static_cast<std::size_t>(world.size()) : total;
  const PlanInfo plan = world.plan(options.kind, options.type, total);
  row.schedule = plan.schedule;
  row.transport = plan.transport;
  row.predicted_us = plan.predicted_us;
  if (BenchCase::exists(options.kind, false))
    row.out_of_place = time_case(world, options, bytes, false);
  if (BenchCase::exists(options.kind, true)) row.in_place = time_case(world, options, bytes, true);
  if (options.reproducible && reduces(options.kind))
    row.free = compare_with_free(world, options, bytes);
  return row;
}

BenchReport measure_all(Communicator& world, const BenchOptions& options, int local_ranks) {
  if (options.root < 0 || options.root >= world.size()) {
    throw Error(Status(Code::kInvalidArgument, "--root " + std::to_string(options.root) +
                                                   ": there are ranks 0 to " +
                                                   std::to_string(world.size() - 1)));
  }
  BenchReport report;
  report.options = options;
  report.ranks = world.size();
  report.local_ranks = local_ranks;
  report.machine = machine_line();
  for (const std::uint64_t bytes : sizes(options, world.size())) {
    report.rows.push_back(measure(world, options, bytes));
  }
  return report;
}

}  // namespace syncline::tools
