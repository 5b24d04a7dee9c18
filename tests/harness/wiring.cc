#include "tests/harness/wiring.h"

#include "tests/harness/process_job.h"

namespace syncline::harness {

std::string to_string(Wiring wiring) {
  if (wiring == Wiring::kThreads) return "Threads";
  return wiring == Wiring::kShm ? "Shm" : "Tcp";
}

void run_on(Wiring wiring, int ranks, const RankBody& body, const SessionOptions& options,
            std::chrono::seconds limit) {
  if (wiring == Wiring::kThreads) return run_ranks(ranks, body, options, limit);
  ProcessOptions process;
  process.transport = wiring == Wiring::kShm ? "shm" : "tcp";
  process.session = options;
  process.limit = limit;
  ProcessJob(ranks, body, process).expect_success();
}

}  // namespace syncline::harness
