// StoreLedger: every push of a simulated job, and what a pull may therefore see. Knows nothing of
// rounds under way: it says with loops over all pushes what the promises of kvstore.h allow.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "tests/sim/store_plan.h"

namespace syncline::sim {

// Where a pull stood when it was called.
struct CalledPull {
  int worker = 0;
  std::size_t key = 0;
  std::uint64_t clock = 0;
  bool pushed = false;             // the same worker to the same key, in this clock
  std::vector<std::int64_t> ids;   // of the table
  std::vector<std::size_t> known;  // by worker: its first pushes that had been applied
};

class StoreLedger {
 public:
  static constexpr double kTrust = 0.5;  // of Lars

  explicit StoreLedger(const StoreScenario& scenario);

  // Before the push is called: what it is to carry; `ids` of the table.
  std::vector<float> push(int worker, std::size_t key, std::uint64_t clock,
                          std::vector<std::int64_t> ids = {});
  // The same bytes as if it were one, for a push that must be refused.
  std::vector<float> forged(int worker, std::size_t key, std::uint64_t clock,
                            std::size_t rows) const;
  bool has_room(int worker, std::size_t key) const;
  CalledPull pull(int worker, std::size_t key, std::uint64_t clock,
                  std::vector<std::int64_t> ids = {}) const;
  // A flush: what it covers, and that it has ended well.
  std::vector<std::size_t> flush(int worker) const;
  void flushed(int worker, const std::vector<std::size_t>& covered);
  void died(int worker) { dead_.insert(worker); }

  // What is wrong with the values that came; empty: nothing.
  std::string check(const CalledPull& pull, const std::vector<float>& values) const;

 private:
  struct Pushed {
    std::uint64_t clock = 0;
    std::size_t layer = 0;
    std::vector<std::int64_t> ids;
  };
  using Sum = std::vector<float>;  // empty: no contribution

  const ps::KeyDescription& key_of(const CalledPull& pull) const {
    return scenario_.keys[pull.key];
  }
  std::size_t count(std::size_t key, int worker, std::uint64_t below, std::int64_t row) const;
  std::size_t count_first(std::size_t key, int worker, std::size_t first, std::int64_t row) const;
  std::string check_counts(const CalledPull& pull, const float* values, std::size_t begin,
                           std::size_t length, std::int64_t row) const;
  std::string check_norms(const CalledPull& pull, const std::vector<float>& values) const;
  std::string check_sum(const CalledPull& pull, const float* values,
                        const ps::PlacedSlice& slice) const;
  std::vector<Sum> sums_of(std::size_t key, std::uint64_t clock,
                           const ps::PlacedSlice& slice) const;
  Sum round_sum(std::size_t key, std::uint64_t clock, const ps::PlacedSlice& slice,
                std::size_t of_dead) const;
  Sum node(std::size_t key, std::uint64_t clock, std::size_t layer, const ps::PlacedSlice& slice,
           int first, int count, std::size_t of_dead) const;

  const StoreScenario& scenario_;
  std::vector<std::vector<std::vector<Pushed>>> pushes_;  // by key, by worker
  std::vector<std::vector<std::size_t>> flushed_;         // by key, by worker
  std::set<int> dead_;
};

}  // namespace syncline::sim
