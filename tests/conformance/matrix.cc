#include "tests/conformance/matrix.h"

#include <algorithm>
#include <set>
#include <utility>

#include "plan/partition.h"
#include "tests/harness/schedules.h"

namespace syncline::conformance {
namespace {

std::vector<ReduceOp> operations_for(Collective kind, DType type) {
  std::vector<ReduceOp> out;
  if (!plan::is_reduction(kind)) return {ReduceOp::kSum};
  for (int op = 0; op < kReduceOpCount; ++op) {
    if (harness::is_defined(type, static_cast<ReduceOp>(op))) {
      out.push_back(static_cast<ReduceOp>(op));
    }
  }
  return out;
}

int root_of_turn(std::size_t turn, int ranks) {
  return static_cast<int>(turn % static_cast<std::size_t>(ranks));
}

// Levels of the five factors of a case, in order.
std::vector<std::pair<std::size_t, std::size_t>> levels(const Case& c, std::size_t schedule) {
  return {{0, static_cast<std::size_t>(c.type)},
          {1, static_cast<std::size_t>(c.op)},
          {2, schedule},
          {3, c.count},
          {4, c.in_place ? 1 : 0}};
}

}  // namespace

std::vector<std::string> schedules_for(Collective kind, int ranks) {
  std::vector<std::string> names = harness::schedules_for(kind, ranks);
  names.emplace_back();
  return names;
}

std::vector<std::size_t> small_counts(int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  std::vector<std::size_t> counts{0, 1, 7, n + 1};
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

void for_each_small(Collective kind, int ranks, const std::function<void(const Case&)>& visit) {
  std::size_t turn = 0;
  for (const std::string& schedule : schedules_for(kind, ranks)) {
    for (int type = 0; type < kDTypeCount; ++type) {
      for (const ReduceOp op : operations_for(kind, static_cast<DType>(type))) {
        for (const std::size_t count : small_counts(ranks)) {
          for (const bool in_place : {false, true}) {
            visit({kind, static_cast<DType>(type), op, count, schedule, root_of_turn(turn++, ranks),
                   in_place});
          }
        }
      }
    }
  }
}

void for_each_large(Collective kind, int ranks,
                    const std::function<void(Case, std::size_t turn)>& visit) {
  std::size_t turn = 0;
  for (const std::string& schedule : schedules_for(kind, ranks)) {
    for (int type = 0; type < kDTypeCount; ++type) {
      const auto operations = operations_for(kind, static_cast<DType>(type));
      const ReduceOp op = operations[turn % operations.size()];
      visit({kind, static_cast<DType>(type), op, 0, schedule, root_of_turn(turn, ranks),
             turn % 2 == 0},
            turn);
      ++turn;
    }
  }
}

std::vector<Case> pairwise(Collective kind, int ranks, std::size_t sizes) {
  std::vector<std::pair<Case, std::size_t>> all;
  const auto schedules = schedules_for(kind, ranks);
  for (std::size_t s = 0; s < schedules.size(); ++s) {
    for (int type = 0; type < kDTypeCount; ++type) {
      for (const ReduceOp op : operations_for(kind, static_cast<DType>(type))) {
        for (std::size_t size = 0; size < sizes; ++size) {
          for (const bool in_place : {false, true}) {
            all.push_back({{kind, static_cast<DType>(type), op, size, schedules[s],
                            root_of_turn(all.size(), ranks), in_place},
                           s});
          }
        }
      }
    }
  }
  using Level = std::pair<std::size_t, std::size_t>;
  std::set<std::pair<Level, Level>> open;
  const auto pairs_of = [](const std::pair<Case, std::size_t>& c) {
    const auto at = levels(c.first, c.second);
    std::vector<std::pair<Level, Level>> out;
    for (std::size_t i = 0; i < at.size(); ++i) {
      for (std::size_t j = i + 1; j < at.size(); ++j) out.emplace_back(at[i], at[j]);
    }
    return out;
  };
  for (const auto& c : all) {
    for (const auto& pair : pairs_of(c)) open.insert(pair);
  }
  // Greedy: take whatever covers most of what is open.
  std::vector<Case> chosen;
  for (std::size_t wanted = 10; wanted > 0; --wanted) {
    for (const auto& c : all) {
      const auto pairs = pairs_of(c);
      const auto fresh = static_cast<std::size_t>(
          std::count_if(pairs.begin(), pairs.end(), [&](const auto& p) { return open.count(p); }));
      if (fresh < wanted) continue;
      for (const auto& pair : pairs) open.erase(pair);
      chosen.push_back(c.first);
    }
  }
  return chosen;
}

}  // namespace syncline::conformance
