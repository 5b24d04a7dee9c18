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
#include <vector>

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
  // Reductions: only schedules that the checker proves to evaluate the canonical sum.
  bool reproducible = false;
};

// What the transports of the whole group can hold; the same on all ranks.
struct Staging {
  std::size_t segment_bytes_max = 0;
  std::size_t in_flight_bytes = 0;  // from one rank to one peer; at least two segments are
};

// What the session asks of every plan; the same on all ranks.
struct Preferences {
  std::string schedule;           // for every collective that has it; "" = none
  std::size_t segment_bytes = 0;  // 0 = the planner's choice; else at most what Staging allows
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
  // `cost` knows the hosts of the group's ranks. The last `aggregators` of the ranks only help:
  // then there is one schedule, and all-reduce alone.
  PlanCache(int rank, int size, plan::CostParams cost, Preferences preferences, Staging staging,
            int aggregators = 0);

  // The plan lives as long as the cache. kInvalidArgument for an unknown schedule and for one that
  // does not sum reproducibly where that is asked for, kUnsupported where it cannot run this
  // collective.
  Result<const Planned*> find(const Query& query) SYNCLINE_EXCLUDES(mutex_);

  // Predicted seconds of exactly this call with the plan that find() gives.
  Result<double> predict(const Query& query);

 private:
  // kind, accumulates wider than its elements, size class, root, schedule, reproducible
  using Key = std::tuple<Collective, bool, int, int, std::string, bool>;

  Result<std::shared_ptr<const Planned>> make(const Query& query, std::size_t bytes)
      SYNCLINE_REQUIRES(mutex_);
  Result<std::vector<std::string_view>> asked_for(const Query& query) SYNCLINE_REQUIRES(mutex_);
  Result<plan::Choice> choose(const Query& query, std::size_t bytes) SYNCLINE_REQUIRES(mutex_);
  Result<plan::Choice> choose_admitted(plan::Request request) SYNCLINE_REQUIRES(mutex_);
  plan::Schedule schedule(const Query& query, std::string_view name) const;
  const Status& proof(Collective kind, int root, const std::string& name) SYNCLINE_REQUIRES(mutex_);

  const int rank_;
  const int size_;
  const plan::CostParams cost_;
  const Preferences preferences_;
  const Staging staging_;
  const int aggregators_;
  // Calls without a root or a schedule of their own: found without lock or allocation. Points into
  // planned_, whose entries stay.
  using Quick =
      std::array<std::array<std::array<std::atomic<const Planned*>, 64>, 4>, kCollectiveCount>;
  Quick quick_{};
  Mutex mutex_;
  std::map<Key, std::shared_ptr<const Planned>> planned_ SYNCLINE_GUARDED_BY(mutex_);
  // By kind, root and name: whether the schedule, whatever the size, sums canonically.
  std::map<std::tuple<Collective, int, std::string>, Status> proofs_ SYNCLINE_GUARDED_BY(mutex_);
};

}  // namespace syncline::collective
