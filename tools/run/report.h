// The launcher's last words. Pure.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "tools/run/supervisor.h"

namespace syncline::tools {

struct ReportInput {
  const Supervisor& supervisor;
  const std::vector<std::string>& hosts;  // of each rank, then of each server
  std::function<const std::deque<std::string>&(int number)> stderr_tail;
  double wall_s = 0;
};

// Why the job did not end well, the first cause last; empty after success.
std::string failure_text(const ReportInput& input);

// One JSON object, one line, with newline: {"schema":"syncline.run/1",...}.
std::string summary_json(const ReportInput& input);

// "exit code 3", "killed by SIGKILL"
std::string describe(const RankEnd& end);

}  // namespace syncline::tools
