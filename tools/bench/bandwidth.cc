#include "tools/bench/bandwidth.h"

#include <algorithm>
#include <cmath>

namespace syncline::tools {

double bus_factor(std::string_view operation, int ranks) {
  const double n = ranks;
  if (operation == "all_reduce") return 2 * (n - 1) / n;
  if (operation == "reduce_scatter" || operation == "all_gather" || operation == "all_to_all" ||
      operation == "gather" || operation == "scatter")
    return (n - 1) / n;
  if (operation == "broadcast" || operation == "reduce") return 1;
  return 0;
}

Bandwidth bandwidth(std::string_view operation, int ranks, double bytes, double seconds) {
  if (seconds <= 0) return {};
  const double algbw = bytes / seconds / 1e9;
  return {algbw, algbw * bus_factor(operation, ranks)};
}

double percentile(std::vector<double> samples, double fraction) {
  if (samples.empty()) return 0;
  const double rank = std::ceil(fraction * static_cast<double>(samples.size()));
  const auto index =
      static_cast<std::size_t>(std::clamp(rank - 1, 0.0, static_cast<double>(samples.size() - 1)));
  std::nth_element(samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(index),
                   samples.end());
  return samples[index];
}

}  // namespace syncline::tools
