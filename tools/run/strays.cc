#include "tools/run/strays.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <vector>

#include "base/clock.h"
#include "fmt/format.h"

namespace syncline::tools {
namespace {

constexpr Nanos kStrayLimit = 2 * kSecond;

std::vector<pid_t> children() {
  std::ifstream file(fmt::format("/proc/self/task/{}/children", gettid()));
  std::vector<pid_t> pids;
  for (pid_t pid; file >> pid;) pids.push_back(pid);
  return pids;
}

}  // namespace

void adopt_strays() { prctl(PR_SET_CHILD_SUBREAPER, 1); }

void kill_strays() {
  const Nanos limit = monotonic_now() + kStrayLimit;
  while (monotonic_now() < limit) {
    for (const pid_t pid : children()) kill(pid, SIGKILL);
    int status;
    while (waitpid(-1, &status, WNOHANG) > 0) continue;
    if (waitpid(-1, &status, WNOHANG) < 0 && errno == ECHILD) return;
    ::poll(nullptr, 0, 2);
  }
}

}  // namespace syncline::tools
