// Rules: what must hold in a simulated job, whatever happens to it. See RELIABILITY 2.8.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/rank.h"

namespace syncline::sim {

// On the network's clock, which begins at 1 s: everything that can heal has healed.
inline constexpr Nanos kFaultsEnd = 4 * kSecond;

// What a place in the job has been through.
struct Place {
  Identity identity;
  Nanos start = 0;
  bool intrudes = false;
  int generation = 0;                // processes before the present one
  std::unique_ptr<SimRank> process;  // null until it starts
  bool dead = false;                 // for good
  Nanos paused_until = 0;

  bool over() const {
    return dead || (process && !process->joining() && (!process->alive() || process->finished()));
  }
};

// Confined. `now` is the network's time.
class Rules {
 public:
  using Violate = std::function<void(const std::string&)>;
  Rules(const Scenario& scenario, const std::vector<Place>& places, Violate violate)
      : scenario_(scenario), places_(places), violate_(std::move(violate)) {}

  // `told`: of a reset, both ends learn it.
  void on_fault(const Fault& fault, bool told);
  // `had_table`: it may have been a member.
  void on_death(const Fault& fault, bool had_table, bool joins_again, Nanos now);
  // After every turn of a process that joins or has just joined.
  void on_join_step(const Place& place, Nanos now);
  void on_call(const Place& place, const CallEnd& end, Nanos now);
  // After every turn of all.
  void check(Nanos now);
  // When all has ended.
  void check_end();

  bool all_started() const { return started_.size() == static_cast<std::size_t>(scenario_.ranks); }
  std::size_t joins_failed() const { return failed_.size(); }

 private:
  void on_view(const Place& place);
  void on_join_failed(const Place& place);
  bool confirms(int rank) const;
  bool news_may_be_late() const;
  bool still_joins(int rank) const;
  bool must_join() const { return !doomed_ && !rough_ && died_at_ < 0; }
  bool is_twin(const Place& place) const;
  bool may_end_with(const Place& place, Code code) const;
  void check_joining(const Place& place, Nanos now);
  void check_links(const Place& place);
  void check_calls(Nanos now);

  const Scenario& scenario_;
  const std::vector<Place>& places_;
  Violate violate_;
  std::set<std::uint64_t> had_table_;  // incarnations
  std::set<std::uint64_t> has_view_;   // incarnations
  std::set<std::uint64_t> refused_;    // incarnations
  std::map<const Place*, Code> failed_;
  std::set<int> failed_ranks_;
  std::set<int> started_;
  std::optional<cluster::View> view_;  // of whoever had it first
  Nanos last_join_end_ = 0;
  bool rough_ = false;   // what no connection survives happened while ranks joined
  bool doomed_ = false;  // a rank is missing for good
  Nanos died_at_ = -1;   // a member
  bool proven_death_ = false;
  Nanos early_death_at_ = -1;  // of a rank that joins again
  std::map<const Place*, Nanos> call_failed_at_;
};

}  // namespace syncline::sim
