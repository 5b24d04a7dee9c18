// The rules of the header one by one, then random orders against an oracle that remembers all.
#include "ps/round_gate.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace syncline::ps {
namespace {

Rules rules_with(std::uint64_t bound) {
  Rules rules;
  rules.bound = bound;
  return rules;
}

class Bulk : public testing::Test {
 protected:
  void push(int worker, std::uint64_t clock) {
    ASSERT_TRUE(gate.begin_push(worker, clock).ok());
    gate.end_push(worker, clock);
  }
  void close_all() {
    while (const auto clock = gate.closable(clocks)) gate.close(*clock);
  }
  RoundGate gate{2, rules_with(0), false};
  ClockTable clocks{2, 0};
};

TEST_F(Bulk, PullsAloneCloseARound) {
  push(0, 0);
  ASSERT_TRUE(gate.note_pull(0, 0));
  EXPECT_FALSE(gate.may_read(0, 0, true, clocks)) << "worker 1 may still push";
  EXPECT_TRUE(gate.may_read(1, 0, false, clocks)) << "who has not pushed reads what was before";
  push(1, 0);
  EXPECT_FALSE(gate.closable(clocks).has_value()) << "worker 1 may push again";
  gate.note_pull(1, 0);
  ASSERT_EQ(gate.closable(clocks), 0u);
  gate.close(0);
  EXPECT_TRUE(gate.may_read(0, 0, true, clocks));
  EXPECT_EQ(gate.begin_push(0, 0).status().code(), Code::kFailedPrecondition);
}

TEST_F(Bulk, APullBeforeThePushDoesNotEndIt) {
  push(1, 0);
  const bool after = gate.note_pull(0, 0);
  EXPECT_FALSE(after);
  EXPECT_TRUE(gate.begin_push(0, 0).ok());
  EXPECT_TRUE(gate.may_read(0, 0, after, clocks)) << "nor does it see it";
}

TEST_F(Bulk, NothingCloseWhileAPushIsUnderWay) {
  ASSERT_TRUE(gate.begin_push(0, 0).ok());
  ASSERT_TRUE(clocks.advance(0, 1).ok());
  ASSERT_TRUE(clocks.advance(1, 1).ok());
  EXPECT_FALSE(gate.closable(clocks).has_value());
  EXPECT_FALSE(gate.may_read(1, 1, false, clocks));
  gate.end_push(0, 0);
  EXPECT_EQ(gate.closable(clocks), 0u);
  close_all();
  EXPECT_TRUE(gate.may_read(1, 1, false, clocks));
}

TEST_F(Bulk, WhoHasLeftHoldsNobodyBack) {
  push(0, 0);
  gate.note_pull(0, 0);
  EXPECT_FALSE(gate.closable(clocks).has_value());
  clocks.leave(1);
  EXPECT_EQ(gate.closable(clocks), 0u);
}

TEST_F(Bulk, RoundsCloseInOrder) {
  push(0, 0);
  ASSERT_TRUE(clocks.advance(0, 1).ok());
  push(0, 1);
  ASSERT_TRUE(clocks.advance(0, 2).ok());
  EXPECT_FALSE(gate.closable(clocks).has_value());
  ASSERT_TRUE(clocks.advance(1, 2).ok());
  EXPECT_EQ(gate.closable(clocks), 0u);
  gate.close(0);
  EXPECT_EQ(gate.closable(clocks), 1u);
}

TEST_F(Bulk, LayersCountPushes) {
  EXPECT_EQ(gate.begin_push(0, 0).value(), 0);
  EXPECT_EQ(gate.begin_push(0, 0, true).value(), 0) << "of the same push";
  EXPECT_EQ(gate.begin_push(0, 0).value(), 1);
  EXPECT_EQ(gate.begin_push(1, 0).value(), 0);
}

TEST(BoundedGate, ReadsTheClosedClocksOnly) {
  RoundGate gate(2, rules_with(1), false);
  ClockTable clocks(2, 1);
  ASSERT_TRUE(gate.begin_push(0, 0).ok());
  gate.end_push(0, 0);
  gate.note_pull(0, 0);  // ends nothing here
  EXPECT_TRUE(gate.begin_push(0, 0).ok());
  gate.end_push(0, 0);
  EXPECT_TRUE(gate.may_read(0, 0, false, clocks));
  ASSERT_TRUE(clocks.advance(0, 2).ok());
  EXPECT_TRUE(gate.may_read(0, 1, false, clocks));
  EXPECT_FALSE(gate.may_read(0, 2, false, clocks)) << "clock 0 of worker 1 is open";
  ASSERT_TRUE(clocks.advance(1, 1).ok());
  EXPECT_FALSE(gate.may_read(0, 2, false, clocks)) << "its round is not closed yet";
  gate.close(gate.closable(clocks).value());
  EXPECT_TRUE(gate.may_read(0, 2, false, clocks));
}

TEST(ImmediateGate, WaitsForOwnAndOwedPushes) {
  RoundGate gate(2, rules_with(1), true);
  ClockTable clocks(2, 1);
  ASSERT_TRUE(gate.begin_push(0, 0).ok());
  EXPECT_FALSE(gate.may_read(0, 0, false, clocks)) << "its own push is under way";
  EXPECT_TRUE(gate.may_read(1, 0, false, clocks));
  ASSERT_TRUE(clocks.advance(0, 2).ok());
  ASSERT_TRUE(clocks.advance(1, 2).ok());
  EXPECT_TRUE(gate.may_read(1, 1, false, clocks));
  EXPECT_FALSE(gate.may_read(1, 2, false, clocks)) << "clock 0 must be in a read of clock 2";
  gate.end_push(0, 0);
  EXPECT_TRUE(gate.may_read(1, 2, false, clocks));
  EXPECT_FALSE(gate.closable(clocks).has_value()) << "it has no rounds";
}

TEST(ImmediateGate, HugeBoundsDoNotOverflow) {
  RoundGate gate(2, rules_with(kUnbounded - 1), true);
  ClockTable clocks(2, kUnbounded - 1);
  ASSERT_TRUE(gate.begin_push(0, 5).ok());
  EXPECT_TRUE(gate.may_read(1, 6, false, clocks));
}

// Knows every push that ever began, and says with loops over all of them what may happen.
class Oracle {
 public:
  Oracle(int workers, std::uint64_t bound, bool immediate)
      : workers_(workers), bound_(bound), immediate_(immediate) {}

  bool may_push(int worker, std::uint64_t clock) const {
    return clock >= floor_ && done_.count({worker, clock}) == 0;
  }
  bool under_way(std::uint64_t clock, int worker = -1) const {
    for (const auto& [w, c] : open_) {
      if (c == clock && (worker < 0 || w == worker)) return true;
    }
    return false;
  }
  bool unclosed_below(std::uint64_t clock) const {
    for (const std::uint64_t each : begun_) {
      if (each < clock && closed_.count(each) == 0) return true;
    }
    return false;
  }
  bool ended(int worker, std::uint64_t clock, const ClockTable& clocks) const {
    return !clocks.active(worker) || clocks.clock_of(worker) > clock;
  }
  bool all_ended(std::uint64_t clock, const ClockTable& clocks) const {
    for (int w = 0; w < workers_; ++w) {
      if (!ended(w, clock, clocks)) return false;
    }
    return true;
  }
  std::optional<std::uint64_t> closable(const ClockTable& clocks) const {
    if (immediate_) return std::nullopt;
    for (const std::uint64_t each : begun_) {
      if (closed_.count(each) != 0) continue;
      if (under_way(each)) return std::nullopt;
      for (int w = 0; w < workers_; ++w) {
        if (!ended(w, each, clocks) && done_.count({w, each}) == 0) return std::nullopt;
      }
      return each;
    }
    return std::nullopt;
  }
  bool pushed(int worker, std::uint64_t clock) const {
    return bound_ == 0 && pushed_.count({worker, clock}) != 0;
  }
  bool may_read(int worker, std::uint64_t clock, bool after, const ClockTable& clocks) const {
    const std::uint64_t must = bound_ == kUnbounded || clock < bound_ ? 0 : clock - bound_;
    if (immediate_) {
      for (const auto& [w, c] : open_) {
        if (w == worker || c < must) return false;
      }
      return must == 0 || all_ended(must - 1, clocks);
    }
    const std::uint64_t below = after ? clock + 1 : must;
    if (below == 0 || below <= floor_) return true;
    return all_ended(below - 1, clocks) && !unclosed_below(below);
  }

  void begin(int worker, std::uint64_t clock) {
    open_.insert({worker, clock});
    pushed_.insert({worker, clock});
    begun_.insert(clock);
  }
  void end(int worker, std::uint64_t clock) { open_.erase(open_.find({worker, clock})); }
  void pull(int worker, std::uint64_t clock) {
    if (bound_ == 0 && pushed_.count({worker, clock}) != 0) done_.insert({worker, clock});
  }
  void close(std::uint64_t clock) {
    closed_.insert(clock);
    floor_ = clock + 1;
    std::erase_if(pushed_, [&](const auto& each) { return each.second == clock; });
  }
  const std::multiset<std::pair<int, std::uint64_t>>& open() const { return open_; }

 private:
  int workers_;
  std::uint64_t bound_;
  bool immediate_;
  std::uint64_t floor_ = 0;
  std::multiset<std::pair<int, std::uint64_t>> open_;
  std::set<std::pair<int, std::uint64_t>> pushed_, done_;
  std::set<std::uint64_t> begun_, closed_;
};

void compare(const RoundGate& gate, const Oracle& oracle, const ClockTable& clocks, int workers) {
  EXPECT_EQ(gate.closable(clocks), oracle.closable(clocks));
  for (int w = 0; w < workers; ++w) {
    for (std::uint64_t clock = clocks.clock_of(w); clock < clocks.clock_of(w) + 2; ++clock) {
      const bool after = oracle.pushed(w, clock);
      EXPECT_EQ(gate.may_read(w, clock, after, clocks), oracle.may_read(w, clock, after, clocks))
          << "worker " << w << " in clock " << clock;
    }
  }
}

void run_randomly(unsigned seed, std::uint64_t bound, bool immediate) {
  std::mt19937 random(seed);
  const int workers = 1 + static_cast<int>(random() % 4);
  RoundGate gate(workers, rules_with(bound), immediate);
  ClockTable clocks(workers, bound);
  Oracle oracle(workers, bound, immediate);
  for (int step = 0; step < 120 && !testing::Test::HasFailure(); ++step) {
    const int worker = static_cast<int>(random() % static_cast<unsigned>(workers));
    const std::uint64_t clock = clocks.clock_of(worker) + (random() % 5 == 0 ? 1 : 0);
    switch (clocks.active(worker) ? random() % 12 : 4) {
      case 0:
      case 1:
      case 2: {
        const bool may = oracle.may_push(worker, clock);
        EXPECT_EQ(gate.begin_push(worker, clock).ok(), may);
        if (may) oracle.begin(worker, clock);
        break;
      }
      case 3:
      case 4:
      case 5:
      case 6: {
        if (oracle.open().empty()) break;
        const auto [who, at] = *oracle.open().begin();
        gate.end_push(who, at);
        oracle.end(who, at);
        break;
      }
      case 7:
      case 8:
        gate.note_pull(worker, clock);
        oracle.pull(worker, clock);
        break;
      case 9:
      case 10:
        ASSERT_TRUE(clocks.advance(worker, clocks.clock_of(worker) + 1).ok());
        break;
      default:
        if (random() % 8 == 0) clocks.leave(worker);
        break;
    }
    compare(gate, oracle, clocks, workers);
    while (const auto closes = gate.closable(clocks)) {
      gate.close(*closes);
      oracle.close(*closes);
      compare(gate, oracle, clocks, workers);
    }
  }
}

TEST(RoundGateOracle, AgreesInRandomOrders) {
  for (unsigned seed = 0; seed < 600 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    run_randomly(seed, 0, false);
    run_randomly(seed, 1 + seed % 3, false);
    run_randomly(seed, 1 + seed % 3, true);
    run_randomly(seed, kUnbounded, true);
  }
}

}  // namespace
}  // namespace syncline::ps
