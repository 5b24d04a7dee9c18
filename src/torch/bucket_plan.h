// Which parameters share a bucket. Pure: the same input gives the same plan on every rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "syncline/types.h"

namespace syncline::torch_detail {

struct BucketItem {
  DType type = DType::kF32;
  std::int64_t count = 0;  // elements
};

struct BucketPlan {
  DType type = DType::kF32;
  std::vector<std::size_t> items;  // indices, in the order of their slices
  std::int64_t count = 0;          // elements of all items
};

// Walks the items backwards (gradients tend to arrive so), one open bucket per type, closed once it
// holds at least its limit: `first_bytes` for a type's first bucket, `cap_bytes` after. Buckets
// come in the order in which their last item is met.
std::vector<BucketPlan> plan_buckets(const std::vector<BucketItem>& items, std::size_t first_bytes,
                                     std::size_t cap_bytes);

}  // namespace syncline::torch_detail
