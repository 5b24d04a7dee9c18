// The launcher: starts the ranks of a job on one or several hosts and answers for them.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "tools/run/message.h"
#include "tools/run/placement.h"

namespace syncline::tools {

inline constexpr const char* kDefaultRsh =
    "ssh -o BatchMode=yes -o ConnectTimeout=20 -o ServerAliveInterval=5 -o ServerAliveCountMax=3";

struct LaunchOptions {
  std::vector<HostPlacement> hosts;
  int servers = 0;                   // placed on these
  std::string server_program;        // what they run; empty: syncline serve
  bool aggregators = false;          // that is what they are: the ranks go on without them
  std::vector<std::string> program;  // with its arguments
  Variables variables;               // set in every rank, over its inherited environment
  std::string rsh = kDefaultRsh;
  std::string ifname;
  std::string port_range;
  std::string bind_to = "none";
  std::string log_dir;
  std::string json;                  // summary: a file, or "-" for stdout
  Nanos grace = 10 * kSecond;        // from SIGTERM to SIGKILL
  Nanos time_limit = 0;              // of the whole job; 0 = none
  Nanos start_limit = 60 * kSecond;  // for all host agents to answer
  bool keep_omp_threads = false;
  bool screen = true;
  bool prefix = true;
  bool color = false;
  bool quiet = false;
};

// Blocks until the job is over and no process of it is left. Returns the launcher's exit code.
int launch(const LaunchOptions& options);

}  // namespace syncline::tools
