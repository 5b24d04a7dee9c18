#include "session/dump_signal.h"

#include <atomic>
#include <csignal>

namespace syncline::session {
namespace {

std::atomic<unsigned> dump_signals{0};

void count_dump_signal(int) { dump_signals.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

void watch_dump_signal() {
  struct sigaction current {};
  if (::sigaction(SIGUSR2, nullptr, &current) != 0 || current.sa_handler != SIG_DFL) return;
  struct sigaction mine {};
  mine.sa_handler = count_dump_signal;
  mine.sa_flags = SA_RESTART;
  ::sigaction(SIGUSR2, &mine, nullptr);
}

unsigned dump_signals_seen() { return dump_signals.load(std::memory_order_relaxed); }

}  // namespace syncline::session
