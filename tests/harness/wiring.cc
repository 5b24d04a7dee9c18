#include "tests/harness/wiring.h"

#include "tests/harness/process_job.h"

namespace syncline::harness {

std::string to_string(Wiring wiring) {
  static constexpr const char* kNames[] = {"Threads", "Shm", "Tcp", "Servers", "Hosts"};
  return kNames[static_cast<int>(wiring)];
}

void run_on(Wiring wiring, int ranks, const RankBody& body, const SessionOptions& options,
            std::chrono::seconds limit) {
  if (wiring == Wiring::kThreads) return run_ranks(ranks, body, options, limit);
  if (wiring == Wiring::kServers || wiring == Wiring::kHosts) {
    std::vector<int> host_of(static_cast<std::size_t>(ranks), 0);
    for (int rank = 0; wiring == Wiring::kHosts && rank < ranks; ++rank) {
      host_of[static_cast<std::size_t>(rank)] = rank / 2;
    }
    const bool far = wiring == Wiring::kHosts;
    return run_ranks_with_servers(host_of, {far ? ranks : 0, far ? ranks + 1 : 0}, body, options,
                                  limit);
  }
  ProcessOptions process;
  process.transport = wiring == Wiring::kShm ? "shm" : "tcp";
  process.session = options;
  process.limit = limit;
  ProcessJob(ranks, body, process).expect_success();
}

}  // namespace syncline::harness
