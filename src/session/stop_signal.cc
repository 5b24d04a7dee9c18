#include "session/stop_signal.h"

#include <atomic>
#include <csignal>

namespace syncline::session {
namespace {

std::atomic<bool> seen{false};

void remember(int) { seen.store(true, std::memory_order_relaxed); }

}  // namespace

void watch_stop_signals() {
  for (const int number : {SIGTERM, SIGUSR1}) {
    struct sigaction current {};
    if (::sigaction(number, nullptr, &current) != 0 || current.sa_handler != SIG_DFL) continue;
    struct sigaction mine {};
    mine.sa_handler = remember;
    mine.sa_flags = SA_RESTART;
    ::sigaction(number, &mine, nullptr);
  }
}

bool stop_signal_seen() { return seen.load(std::memory_order_relaxed); }

}  // namespace syncline::session
