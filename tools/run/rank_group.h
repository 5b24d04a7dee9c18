// RankGroup: the ranks of one host as processes, with their output and their end.
#pragma once

#include <functional>
#include <map>
#include <string_view>
#include <vector>

#include "event/poller.h"
#include "tools/run/line_buffer.h"
#include "tools/run/rank_process.h"

namespace syncline::tools {

// Confined to the agent's loop. Each rank leads a process group; what is left of the group when the
// rank ends is killed with it. The process must be a child subreaper, so that processes which left
// their group come back to it and are found by kill_strays() (tools/run/strays.h).
class RankGroup {
 public:
  struct Events {
    std::function<void(int rank, int stream, std::string_view line)> line;
    std::function<void(int rank, int code, int signal)> exit;  // after the last line of the rank
  };

  RankGroup(event::Poller& poller, Events events) : poller_(poller), events_(std::move(events)) {}
  ~RankGroup();
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  Status start(int rank, const SpawnSpec& spec);
  // To the process group of every rank that still runs.
  void signal_all(int signo);
  bool all_ended() const { return running_ == 0; }
  // Collects ended processes that were handed to us by ranks.
  void reap_strays();

 private:
  struct Rank {
    Spawned child;
    LineBuffer lines[2];
    bool ended = false;
  };
  void read_stream(int rank, int stream);
  void close_stream(int rank, int stream);
  void on_exit(int rank);
  bool is_running_rank(pid_t pid) const;

  event::Poller& poller_;
  Events events_;
  std::map<int, Rank> ranks_;
  int running_ = 0;
};

}  // namespace syncline::tools
