// SimRank: one process of a simulated job: it joins, then calls collectives. Stepped by the world.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/plan.h"
#include "tests/sim/process.h"

namespace syncline::sim {

// What a finished call was like.
struct CallEnd {
  int index = 0;
  Nanos started = 0;
  Status status;
  bool right = true;         // the result is what it must be
  bool input_intact = true;  // of a call that is not in place
};

class SimRank : public SimProcess {
 public:
  SimRank(Network& network, const Scenario& scenario, const Identity& identity,
          std::uint64_t generation, Log log);
  ~SimRank() override;

  // One turn at the network's time: connections, timers, operations, the next calls. True if
  // something moved.
  bool step();

  // Has joined, and is neither dead nor done with a failed join.
  bool alive() const { return impl_ != nullptr; }
  bool finished() const { return impl_ && next_call_ == script_.size() && running_.empty(); }
  std::deque<CallEnd>& ends() { return ends_; }
  std::string waiting() const;

 private:
  struct Running {
    int index = 0;
    Nanos started = 0;
    Work work;
    std::vector<float> in;
    std::vector<float> in_before;
    std::vector<float> out;
  };
  void on_joined(std::vector<exec::Channel*> peers) override;
  void on_death() override;
  void start(int index);
  Work issue(const PlannedCall& call, Running& running);
  void collect();
  bool is_right(const PlannedCall& call, const Running& running) const;

  const Scenario& scenario_;
  std::vector<PlannedCall> script_;
  std::unique_ptr<Session::Impl> impl_;
  std::size_t next_call_ = 0;
  Nanos computes_until_ = 0;
  std::deque<std::unique_ptr<Running>> running_;
  std::deque<CallEnd> ends_;
};

}  // namespace syncline::sim
