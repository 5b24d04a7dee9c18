#include "ps/store_cost.h"

#include <algorithm>
#include <numeric>

namespace syncline::ps {

double predict_push_pull_seconds(const StoreLoad& load, const PortCost& port) {
  const auto& shares = load.bytes_by_server;
  const auto all =
      static_cast<double>(std::accumulate(shares.begin(), shares.end(), std::size_t{0}));
  const double largest =
      shares.empty() ? 0 : static_cast<double>(*std::max_element(shares.begin(), shares.end()));
  const double carried = std::max(all, largest * load.workers);
  return (carried + static_cast<double>(load.slice_bytes)) * port.beta_s_per_byte +
         2 * port.alpha_s;
}

}  // namespace syncline::ps
