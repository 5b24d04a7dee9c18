#include "tools/train/exchange_times.h"

#include <algorithm>
#include <cstddef>

#include "base/clock.h"

namespace syncline::tools {
namespace {

constexpr int kWarmUps = 3;
constexpr std::size_t kBytesToMove = 256 << 20;

// Enough repetitions for a median; the same on every rank.
int repetitions(std::size_t bytes) {
  return static_cast<int>(
      std::clamp<std::size_t>(kBytesToMove / std::max<std::size_t>(bytes, 1), 11, 201));
}

double median_us(Communicator& comm, const BucketStats& bucket, const std::string& schedule) {
  const std::size_t bytes = bucket.count * size_of(bucket.type);
  std::vector<unsigned char> in(bytes), out(bytes);
  CallOptions options;
  options.schedule = schedule;
  options.name = bucket.name + ".alone";
  std::vector<double> times;
  for (int i = 0; i < kWarmUps + repetitions(bytes); ++i) {
    comm.barrier().wait();
    const Nanos begun = monotonic_now();
    comm.all_reduce(ConstTensorView(in.data(), bucket.count, bucket.type),
                    TensorView(out.data(), bucket.count, bucket.type), ReduceOp::kSum, options)
        .wait();
    if (i >= kWarmUps) times.push_back(static_cast<double>(monotonic_now() - begun) / kMicrosecond);
  }
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

}  // namespace

void BucketTimes::add(const StepStats& step) {
  if (step.buckets.size() != in_step_us_.size()) {
    in_step_us_.assign(step.buckets.size(), 0);
    steps_ = 0;
  }
  if (steps_ == 0) buckets_ = step.buckets;
  for (std::size_t i = 0; i < in_step_us_.size(); ++i)
    in_step_us_[i] += step.buckets[i].measured_us;
  steps_ += 1;
}

std::vector<BucketReport> BucketTimes::finish(Communicator& comm,
                                              const std::string& schedule) const {
  if (comm.size() == 1 || steps_ == 0) return {};
  std::vector<BucketReport> reports;
  std::vector<double> times;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const BucketStats& b = buckets_[i];
    BucketReport report;
    report.name = b.name;
    report.bytes = b.count * size_of(b.type);
    report.tensors = b.tensors;
    report.schedule = b.plan.schedule;
    report.transport = b.plan.transport;
    report.predicted_us = b.plan.predicted_us;
    report.reason = b.plan.reason;
    reports.push_back(std::move(report));
    times.push_back(in_step_us_[i] / steps_);
    times.push_back(median_us(comm, b, schedule));
  }
  comm.all_reduce(TensorView(times.data(), times.size()), ReduceOp::kAverage).wait();
  for (std::size_t i = 0; i < reports.size(); ++i) {
    reports[i].in_step_us = times[2 * i];
    reports[i].alone_us = times[2 * i + 1];
  }
  return reports;
}

}  // namespace syncline::tools
