#include "tests/sim/store_ledger.h"

#include <algorithm>
#include <cmath>

#include "plan/canonical.h"

namespace syncline::sim {
namespace {

constexpr std::uint64_t kEver = UINT64_MAX;
constexpr std::size_t kCountMax = 15;
constexpr std::size_t kPushesMax = 3;  // of a worker and key in one clock, or fewer

// Where values add up, a worker's pushes are counted in four bits of its own, times a factor that
// tells elements apart: small integers, exact in any order.
float digit(int worker) { return static_cast<float>(1 << (4 * worker)); }
float factor(std::size_t element) { return static_cast<float>(1 + element % 7); }

// Where rounds are sums, any order but the right one shows.
float noise(int worker, std::size_t key, std::uint64_t clock, std::size_t layer,
            std::size_t element) {
  std::uint64_t x = element + 0x9e3779b97f4a7c15u * (clock * 64 + layer * 16 + key * 5 +
                                                     static_cast<std::uint64_t>(worker) + 1);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x ^= x >> 27;
  return static_cast<float>(static_cast<std::int32_t>(x & 0xffffff) - 0x800000) / 65536.0f;
}

// With norms the slices' gradients grow apart, so that none has the norm of another.
float bend(std::size_t slice, std::uint64_t clock) {
  return static_cast<float>(1 + (3 * slice + clock) % 4);
}

}  // namespace

StoreLedger::StoreLedger(const StoreScenario& scenario)
    : scenario_(scenario),
      pushes_(scenario.keys.size(),
              std::vector<std::vector<Pushed>>(static_cast<std::size_t>(scenario.workers))),
      flushed_(scenario.keys.size(),
               std::vector<std::size_t>(static_cast<std::size_t>(scenario.workers))) {}

std::vector<float> StoreLedger::forged(int worker, std::size_t key, std::uint64_t clock,
                                       std::size_t rows) const {
  const auto& description = scenario_.keys[key];
  std::vector<float> values(description.count * (description.table ? rows : 1));
  const bool descends = scenario_.optimizer && !description.table;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t element = description.table ? i % description.count : i;
    values[i] = (descends ? -1.0f : 1.0f) * digit(worker) * factor(element);
  }
  if (!scenario_.norms) return values;
  for (std::size_t j = 0; j < description.slices.size(); ++j) {
    const ps::PlacedSlice& slice = description.slices[j];
    for (std::size_t i = 0; i < slice.count; ++i) values[slice.begin + i] *= bend(j, clock);
  }
  return values;
}

std::vector<float> StoreLedger::push(int worker, std::size_t key, std::uint64_t clock,
                                     std::vector<std::int64_t> ids) {
  auto& mine = pushes_[key][static_cast<std::size_t>(worker)];
  Pushed pushed;
  pushed.clock = clock;
  pushed.layer = static_cast<std::size_t>(
      std::count_if(mine.begin(), mine.end(), [&](const Pushed& p) { return p.clock == clock; }));
  std::vector<float> values = forged(worker, key, clock, ids.size());
  if (!scenario_.accumulates(scenario_.keys[key])) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = noise(worker, key, clock, pushed.layer, i);
    }
  }
  pushed.ids = std::move(ids);
  mine.push_back(std::move(pushed));
  return values;
}

// A row may be twice in one push.
bool StoreLedger::has_room(int worker, std::size_t key) const {
  const std::size_t pushes = pushes_[key][static_cast<std::size_t>(worker)].size();
  return scenario_.keys[key].table ? 2 * pushes + 2 <= kCountMax : pushes < kCountMax;
}

CalledPull StoreLedger::pull(int worker, std::size_t key, std::uint64_t clock,
                             std::vector<std::int64_t> ids) const {
  CalledPull pull;
  pull.worker = worker;
  pull.key = key;
  pull.clock = clock;
  pull.ids = std::move(ids);
  const auto own = static_cast<std::size_t>(worker);
  const auto& mine = pushes_[key][own];
  pull.pushed = std::any_of(mine.begin(), mine.end(),
                            [clock](const Pushed& each) { return each.clock == clock; });
  pull.known = flushed_[key];
  pull.known[own] = mine.size();
  return pull;
}

std::vector<std::size_t> StoreLedger::flush(int worker) const {
  std::vector<std::size_t> covered;
  for (const auto& by_worker : pushes_) {
    covered.push_back(by_worker[static_cast<std::size_t>(worker)].size());
  }
  return covered;
}

void StoreLedger::flushed(int worker, const std::vector<std::size_t>& covered) {
  for (std::size_t key = 0; key < covered.size(); ++key) {
    auto& known = flushed_[key][static_cast<std::size_t>(worker)];
    known = std::max(known, covered[key]);
  }
}

std::size_t StoreLedger::count(std::size_t key, int worker, std::uint64_t below,
                               std::int64_t row) const {
  const auto& pushes = pushes_[key][static_cast<std::size_t>(worker)];
  const auto first = std::find_if(pushes.begin(), pushes.end(),
                                  [below](const Pushed& each) { return each.clock >= below; });
  return count_first(key, worker, static_cast<std::size_t>(first - pushes.begin()), row);
}

std::size_t StoreLedger::count_first(std::size_t key, int worker, std::size_t first,
                                     std::int64_t row) const {
  if (row < 0) return first;
  std::size_t found = 0;
  for (std::size_t i = 0; i < first; ++i) {
    const auto& ids = pushes_[key][static_cast<std::size_t>(worker)][i].ids;
    found += static_cast<std::size_t>(std::count(ids.begin(), ids.end(), row));
  }
  return found;
}

std::string StoreLedger::check(const CalledPull& pull, const std::vector<float>& values) const {
  const auto& key = key_of(pull);
  std::string wrong;
  if (key.table) {
    for (std::size_t i = 0; i < pull.ids.size() && wrong.empty(); ++i) {
      wrong = check_counts(pull, values.data() + i * key.count, 0, key.count, pull.ids[i]);
    }
  }
  const bool norms = scenario_.norms && !key.table;
  if (norms) wrong = check_norms(pull, values);
  for (std::size_t i = 0; i < key.slices.size() && wrong.empty() && !norms; ++i) {
    const auto& slice = key.slices[i];
    const float* from = values.data() + slice.begin;
    wrong = scenario_.accumulates(key) ? check_counts(pull, from, slice.begin, slice.count, -1)
                                       : check_sum(pull, from, slice);
  }
  if (wrong.empty()) return {};
  return "worker " + std::to_string(pull.worker) + " pulls '" + key.name + "' in clock " +
         std::to_string(pull.clock) + (pull.pushed ? " after a push: " : ": ") + wrong;
}

// How many pushes of each worker are in the value: as many as must be, and no more than there are.
std::string StoreLedger::check_counts(const CalledPull& pull, const float* values,
                                      std::size_t begin, std::size_t length,
                                      std::int64_t row) const {
  const auto total = static_cast<std::uint64_t>(values[0] / factor(begin));
  for (std::size_t i = 0; i < length; ++i) {
    if (values[i] != static_cast<float>(total) * factor(begin + i)) {
      return "element " + std::to_string(begin + i) + " is " + std::to_string(values[i]) +
             ", not of the same pushes as the first";
    }
  }
  const bool immediate = scenario_.immediate(key_of(pull));
  const std::uint64_t bulk_below = pull.clock + (pull.pushed ? 1 : 0);
  const std::uint64_t owed_below =
      scenario_.is_bulk() ? bulk_below
                          : (pull.clock > scenario_.bound ? pull.clock - scenario_.bound : 0);
  for (int worker = 0; worker < scenario_.workers; ++worker) {
    const std::size_t seen = (total >> (4 * worker)) & kCountMax;
    const std::size_t most = count(pull.key, worker, scenario_.is_bulk() ? bulk_below : kEver, row);
    std::size_t least = dead_.count(worker) != 0 ? 0 : count(pull.key, worker, owed_below, row);
    if (immediate) {
      const std::size_t known = pull.known[static_cast<std::size_t>(worker)];
      least = std::max(least, count_first(pull.key, worker, known, row));
    }
    if (seen >= least && seen <= most) continue;
    return "has " + std::to_string(seen) + " pushes of worker " + std::to_string(worker) +
           (row < 0 ? "" : " to row " + std::to_string(row)) + ", must have " +
           std::to_string(least) + " to " + std::to_string(most);
  }
  return total >> (4 * scenario_.workers) == 0 ? "" : "has pushes of nobody";
}

// A slice's weights are one number times its elements' factors: the same steps in f64, of numbers.
// What a dead worker's pushes were worth to each slice is not known.
std::string StoreLedger::check_norms(const CalledPull& pull,
                                     const std::vector<float>& values) const {
  if (!dead_.empty()) return {};
  const auto& slices = key_of(pull).slices;
  std::vector<double> weights(slices.size()), squares(slices.size());
  for (std::size_t j = 0; j < slices.size(); ++j) {
    for (std::size_t i = 0; i < slices[j].count; ++i) {
      const double one = factor(slices[j].begin + i);
      squares[j] += one * one;
    }
  }
  for (std::uint64_t clock = 0; clock < pull.clock + (pull.pushed ? 1 : 0); ++clock) {
    double pushed = 0;
    for (int worker = 0; worker < scenario_.workers; ++worker) {
      pushed += static_cast<double>(count(pull.key, worker, clock + 1, -1) -
                                    count(pull.key, worker, clock, -1)) *
                static_cast<double>(digit(worker));
    }
    if (pushed == 0) continue;
    double of_weights = 0, of_gradient = 0;
    for (std::size_t j = 0; j < slices.size(); ++j) {
      const double gradient = pushed * static_cast<double>(bend(j, clock));
      of_weights += weights[j] * weights[j] * squares[j];
      of_gradient += gradient * gradient * squares[j];
    }
    const double trust = of_weights == 0 ? 1 : kTrust * std::sqrt(of_weights / of_gradient);
    for (std::size_t j = 0; j < slices.size(); ++j) {
      weights[j] += trust * pushed * static_cast<double>(bend(j, clock));
    }
  }
  for (std::size_t j = 0; j < slices.size(); ++j) {
    for (std::size_t i = slices[j].begin; i < slices[j].begin + slices[j].count; ++i) {
      const double expected = weights[j] * static_cast<double>(factor(i));
      if (std::abs(static_cast<double>(values[i]) - expected) <= 1e-3 * expected) continue;
      return "element " + std::to_string(i) + " is " + std::to_string(values[i]) +
             ", must be about " + std::to_string(expected);
    }
  }
  return {};
}

// The sum of one clock, bit for bit: in bulk of the newest that has ended, else of any that is
// within the bound. Of a dead worker any of its pushes may be in it: payloads overtake each other.
std::string StoreLedger::check_sum(const CalledPull& pull, const float* values,
                                   const ps::PlacedSlice& slice) const {
  // A host's sums are its first pushes, its second ones and so on, of those that came.
  if (!dead_.empty() && !scenario_.hosts.empty()) return {};
  const std::uint64_t below = pull.clock + (pull.pushed && scenario_.is_bulk() ? 1 : 0);
  for (std::uint64_t clock = below; clock-- > 0;) {
    bool always = true;  // there is something in this clock, whatever died
    for (const Sum& sum : sums_of(pull.key, clock, slice)) {
      if (sum.empty()) always = false;
      if (!sum.empty() && std::equal(sum.begin(), sum.end(), values)) return {};
    }
    const bool owed = scenario_.is_bulk() || clock + scenario_.bound < pull.clock;
    if (always && owed) {
      return "is neither the sum of clock " + std::to_string(clock) +
             " nor a newer one: " + std::to_string(values[0]) + " at " +
             std::to_string(slice.begin);
    }
  }
  const bool first = std::all_of(values, values + slice.count, [](float v) { return v == 0; });
  return first ? "" : "is no clock's sum";
}

std::vector<StoreLedger::Sum> StoreLedger::sums_of(std::size_t key, std::uint64_t clock,
                                                   const ps::PlacedSlice& slice) const {
  std::vector<Sum> sums;
  for (std::size_t of_dead = 0; of_dead < (dead_.empty() ? 1u : 1u << kPushesMax); ++of_dead) {
    sums.push_back(round_sum(key, clock, slice, of_dead));
  }
  return sums;
}

StoreLedger::Sum StoreLedger::round_sum(std::size_t key, std::uint64_t clock,
                                        const ps::PlacedSlice& slice, std::size_t of_dead) const {
  Sum total;
  for (std::size_t layer = 0; layer < kCountMax; ++layer) {
    const Sum sum = node(key, clock, layer, slice, 0, scenario_.workers, of_dead);
    if (total.empty()) {
      total = sum;
      continue;
    }
    for (std::size_t i = 0; i < sum.size(); ++i) total[i] += sum[i];
  }
  return total;
}

StoreLedger::Sum StoreLedger::node(std::size_t key, std::uint64_t clock, std::size_t layer,
                                   const ps::PlacedSlice& slice, int first, int count,
                                   std::size_t of_dead) const {
  Sum sum;
  if (count == 1) {
    const auto& mine = pushes_[key][static_cast<std::size_t>(first)];
    const bool there = std::any_of(mine.begin(), mine.end(), [&](const Pushed& each) {
      return each.clock == clock && each.layer == layer;
    });
    if (!there || (dead_.count(first) != 0 && (of_dead >> layer & 1) == 0)) return sum;
    for (std::size_t i = 0; i < slice.count; ++i) {
      sum.push_back(noise(first, key, clock, layer, slice.begin + i));
    }
    return sum;
  }
  const int split = plan::canonical_split(count);
  sum = node(key, clock, layer, slice, first, split, of_dead);
  const Sum rest = node(key, clock, layer, slice, first + split, count - split, of_dead);
  if (sum.empty()) return rest;
  for (std::size_t i = 0; i < rest.size(); ++i) sum[i] += rest[i];
  return sum;
}

}  // namespace syncline::sim
