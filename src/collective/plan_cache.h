// PlanCache: which schedule a group's collectives run, chosen once per kind and size class.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>

#include "base/mutex.h"
#include "base/result.h"
#include "exec/program.h"
#include "plan/cost.h"
#include "syncline/types.h"

namespace syncline::collective {

// A call to plan for. `count`: elements of the whole vector.
struct Query {
  Collective kind{};
  DType type = DType::kF32;
  std::size_t count = 0;
  int root = 0;
  std::string_view schedule;  // "" = the planner's choice
};

// What the transports of the whole group can hold; the same on all ranks.
struct Staging {
  std::size_t segment_bytes_max = 0;
  std::size_t in_flight_bytes = 0;  // from one rank to one peer; at least two segments are
};

struct Planned {
  std::shared_ptr<const exec::Program> program;
  std::size_t segment_bytes = 0;
  std::uint32_t window = 1;  // segment instances in flight
  double predicted_s = 0;    // for the upper end of the size class
  std::string reason;
};

// Thread-safe. The choice depends only on what all ranks of the group share.
class PlanCache {
 public:
  // `forced`: a schedule for every collective that has it, "" = none.
  PlanCache(int rank, int size, plan::CostParams cost, std::string forced, Staging staging);

  // The plan lives as long as the cache. kInvalidArgument for an unknown schedule, kUnsupported
  // where it cannot run this collective.
  Result<const Planned*> find(const Query& query) SYNCLINE_EXCLUDES(mutex_);

  // Predicted seconds of exactly this call with the plan that find() gives.
  Result<double> predict(const Query& query);

 private:
  // kind, accumulates wider than its elements, size class, root, schedule
  using Key = std::tuple<Collective, bool, int, int, std::string>;

  Result<std::shared_ptr<const Planned>> make(const Query& query, std::size_t bytes) const;

  const int rank_;
  const int size_;
  const plan::CostParams cost_;
  const std::string forced_;
  const Staging staging_;
  // Calls without a root or a schedule of their own: found without lock or allocation. Points into
  // planned_, whose entries stay.
  using Quick =
      std::array<std::array<std::array<std::atomic<const Planned*>, 64>, 2>, kCollectiveCount>;
  Quick quick_{};
  Mutex mutex_;
  std::map<Key, std::shared_ptr<const Planned>> planned_ SYNCLINE_GUARDED_BY(mutex_);
};

}  // namespace syncline::collective
