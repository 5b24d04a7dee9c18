// MetricReducer: sums over all ranks for losses and accuracies.
#ifndef SYNCLINE_TORCH_METRICS_H_
#define SYNCLINE_TORCH_METRICS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "syncline/communicator.h"

namespace syncline {

// One metric over all ranks.
struct Metric {
  std::string name;
  double sum = 0;
  std::int64_t count = 0;
  double mean() const { return count == 0 ? 0 : sum / static_cast<double>(count); }
};

// Externally synchronised. Sums travel as f64 and counts as i64, so counts are exact and so is a
// mean over ranks with unequal numbers of samples (it is not a mean of means).
//   MetricReducer metrics({"loss", "accuracy"});
//   metrics.add("loss", loss.item<double>() * n, n);   // per batch
//   metrics.add("accuracy", correct, n);
//   auto all = metrics.reduce(world);                  // once an epoch, on every rank
class MetricReducer {
 public:
  // The names, the same on every rank: a rank that has seen no batch takes part with zeros.
  explicit MetricReducer(std::vector<std::string> names);

  // Adds `sum` over `count` samples. Padding that another rank also has does not belong in either.
  // Throws kInvalidArgument for a name that was not announced or a negative count.
  void add(const std::string& name, double sum, std::int64_t count);

  // Collective; blocks. The totals over all ranks, in the order of the names; starts again from
  // zero.
  std::vector<Metric> reduce(Communicator& comm);

 private:
  std::vector<std::string> names_;
  std::vector<double> sums_;
  std::vector<std::int64_t> counts_;
};

}  // namespace syncline

#endif  // SYNCLINE_TORCH_METRICS_H_
