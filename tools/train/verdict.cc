#include <algorithm>

#include "fmt/format.h"
#include "tools/train/report.h"

namespace syncline::tools {
namespace {

std::string compute_bound(const TrainReport& r, double t1, double t2) {
  std::string text = fmt::format(
      "t1 = compute = {:.2f} ms is more than t2 = exchange = {:.2f} ms, so compute bounds the "
      "step: ",
      t1, t2);
  if (r.phases.exposed <= std::max(0.05 * t1, 1.1 * t2)) {
    return text + fmt::format(
                      "backward hides the exchange but for {:.2f} ms. More or faster cores "
                      "shorten the step, a faster network would not.",
                      r.phases.exposed);
  }
  return text + fmt::format(
                    "the {:.2f} ms that are exposed are mostly waiting for the slower rank "
                    "(compute takes {:.2f} to {:.2f} ms a step on the ranks, and varies from step "
                    "to step), not moving bytes.",
                    r.phases.exposed, r.compute_ms_min, r.compute_ms_max);
}

}  // namespace

double TrainReport::images_per_second() const {
  return train_seconds > 0 ? static_cast<double>(samples) / train_seconds : 0;
}

double TrainReport::exchange_ms() const {
  double sum = 0;
  for (const BucketReport& bucket : buckets) sum += bucket.alone_us;
  return sum / 1000;
}

std::string bound_by(const TrainReport& r) {
  const double t1 = r.phases.compute();
  const double t2 = r.consistency.empty() ? r.exchange_ms() : r.phases.exposed;
  if (r.phases.data > std::max(t1, t2)) return "data";
  return t2 > t1 ? "exchange" : "compute";
}

std::string verdict(const TrainReport& r) {
  const double t1 = r.phases.compute();
  const double t2 = r.exchange_ms();
  const std::string bound = bound_by(r);
  if (bound == "data") {
    return fmt::format(
        "Waiting for data takes {:.2f} ms of the step, more than t1 = compute = {:.2f} ms "
        "and t2 = exchange = {:.2f} ms: reading the data bounds the step.",
        r.phases.data, t1, t2);
  }
  if (r.world_size == 1) {
    return fmt::format(
        "One worker exchanges nothing (t2 = 0), so t1 = compute = {:.2f} ms bounds the "
        "step.",
        t1);
  }
  if (!r.consistency.empty()) {
    return fmt::format("Of {:.2f} ms a step, {:.2f} ms wait for weights from the store: {}.",
                       r.phases.step(), r.phases.exposed,
                       r.phases.exposed > t1 ? "the exchange, or a slower worker, bounds the step"
                                             : "compute bounds the step");
  }
  if (bound == "exchange") {
    return fmt::format(
        "t2 = exchange = {:.2f} ms is more than t1 = compute = {:.2f} ms, so exchange "
        "bounds the step: {:.2f} ms of it stay exposed. A larger --batch, --accum or a "
        "faster network shortens it.",
        t2, t1, r.phases.exposed);
  }
  return compute_bound(r, t1, t2);
}

}  // namespace syncline::tools
