#include "syncline/torch/metrics.h"

#include <algorithm>
#include <utility>

namespace syncline {

MetricReducer::MetricReducer(std::vector<std::string> names)
    : names_(std::move(names)), sums_(names_.size()), counts_(names_.size()) {}

void MetricReducer::add(const std::string& name, double sum, std::int64_t count) {
  const auto found = std::find(names_.begin(), names_.end(), name);
  if (found == names_.end() || count < 0) {
    throw Error(Status(Code::kInvalidArgument,
                       found == names_.end()
                           ? "MetricReducer: '" + name + "' was not given to the constructor"
                           : "MetricReducer: negative count for '" + name + "'"));
  }
  const auto i = static_cast<std::size_t>(found - names_.begin());
  sums_[i] += sum;
  counts_[i] += count;
}

std::vector<Metric> MetricReducer::reduce(Communicator& comm) {
  CallOptions options;
  options.name = "metrics";
  for (const auto& name : names_) options.name += " " + name;
  Work sums = comm.all_reduce(TensorView(sums_.data(), sums_.size()), ReduceOp::kSum, options);
  Work counts =
      comm.all_reduce(TensorView(counts_.data(), counts_.size()), ReduceOp::kSum, options);
  Status status;
  try {
    sums.wait();
  } catch (const Error& e) {  // the other one still borrows our memory
    status = e.status();
  }
  counts.wait();
  throw_if_error(status);
  std::vector<Metric> result;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    result.push_back({names_[i], std::exchange(sums_[i], 0.0), std::exchange(counts_[i], 0)});
  }
  return result;
}

}  // namespace syncline
