#include "torch/bucket_plan.h"

#include <algorithm>
#include <array>
#include <optional>

namespace syncline::torch_detail {

std::vector<BucketPlan> plan_buckets(const std::vector<BucketItem>& items, std::size_t first_bytes,
                                     std::size_t cap_bytes) {
  std::vector<BucketPlan> closed;
  std::array<std::optional<BucketPlan>, kDTypeCount> open;
  std::array<std::size_t, kDTypeCount> limit;
  limit.fill(first_bytes);
  for (std::size_t i = items.size(); i-- > 0;) {
    const auto type = static_cast<std::size_t>(items[i].type);
    if (!open[type]) open[type] = BucketPlan{items[i].type, {}, 0};
    BucketPlan& bucket = *open[type];
    bucket.items.push_back(i);
    bucket.count += items[i].count;
    if (static_cast<std::size_t>(bucket.count) * size_of(bucket.type) >= limit[type]) {
      limit[type] = cap_bytes;
      closed.push_back(std::move(bucket));
      open[type].reset();
    }
  }
  for (auto& bucket : open) {
    if (bucket) closed.push_back(std::move(*bucket));
  }
  std::stable_sort(closed.begin(), closed.end(),
                   [](const auto& a, const auto& b) { return a.items.back() > b.items.back(); });
  return closed;
}

}  // namespace syncline::torch_detail
