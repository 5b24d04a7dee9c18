// Supervisor: decides how a job goes on when a rank or server ends or somebody wants it to stop.
// Sans I/O.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"

namespace syncline::tools {

// How a rank or server ended.
struct RankEnd {
  int code = 0;       // exit code, if no signal
  int signal = 0;     // what killed it
  bool lost = false;  // its host's agent vanished
  bool failed() const { return lost || signal != 0 || code != 0; }
  int exit_code() const;
};

// Confined. Running -> stopping (SIGTERM sent, grace runs) -> killing (SIGKILL sent) -> finished.
//
// Processes go by number, servers behind the ranks. The job is over with its ranks: then servers
// that still run are told so, which ends those that never met a rank; the others see it themselves,
// and none may take longer than the grace.
class Supervisor {
 public:
  enum class Ask { kNothing, kTerminate, kKill };
  // Why the job is being stopped before all ranks ended.
  enum class Stop { kNone, kRankFailed, kInterrupt, kTerminated, kTimeLimit, kOutputClosed };

  // `limit`: longest time the job may take from now; 0 = none.
  // `expendable`: ranks go on without a server (an aggregator) that dies.
  Supervisor(int ranks, Nanos grace, Nanos limit, Nanos now, int servers = 0,
             bool expendable = false);

  void on_exit(int rank, RankEnd end, Nanos now);
  // Ctrl-C: the second one kills.
  void on_interrupt(Nanos now);
  // SIGTERM from a scheduler.
  void on_terminate(Nanos now);
  void on_output_closed(Nanos now);

  // What to send to the ranks that still run; each answer is given once.
  Ask poll(Nanos now);
  // When poll() must be called next at the latest.
  std::optional<Nanos> deadline() const { return deadline_; }

  bool finished() const { return running_ == 0; }
  // True when ranks outlived SIGKILL by so long that waiting is of no use.
  bool stuck(Nanos now) const;
  // The launcher's exit code; final once finished().
  int exit_code() const;

  // It died, but the ranks go on. One that gave up by itself never was of use: that is a failure.
  bool is_spared(int number, const RankEnd& end) const {
    return expendable_ && number >= ranks_ && (end.lost || end.signal != 0);
  }
  // The rank that failed first, before any stop was asked for.
  std::optional<int> first_cause() const { return first_cause_; }
  const std::optional<RankEnd>& end_of(int rank) const {
    return ends_[static_cast<std::size_t>(rank)];
  }
  // Failed, but not first or only after it was told to stop.
  bool is_collateral(int rank) const;
  Stop stop() const { return stop_; }
  int ranks() const { return ranks_; }
  // A server that had to be killed after all ranks had ended.
  bool outlived_ranks(int number) const {
    return winding_down_ && killed_ && number >= ranks_ && end_of(number)->signal != 0;
  }
  bool killed() const { return killed_; }
  bool ranks_are_over() const { return ranks_running_ == 0; }

 private:
  void begin_stop(Stop why, Ask ask, Nanos now);
  void wind_down(Nanos now);

  const Nanos grace_;
  const int ranks_;
  const bool expendable_;
  std::vector<std::optional<RankEnd>> ends_;
  int running_;
  int ranks_running_;
  Stop stop_ = Stop::kNone;
  Ask pending_ = Ask::kNothing;
  std::optional<Nanos> deadline_;
  std::optional<int> first_cause_;
  bool told_ = false;  // SIGTERM was asked for
  bool killed_ = false;
  bool winding_down_ = false;  // all ranks have ended, servers have not
  Nanos killed_at_ = 0;
};

}  // namespace syncline::tools
