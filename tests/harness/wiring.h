// The same test body over every way to connect ranks.
#pragma once

#include <chrono>
#include <string>

#include "tests/harness/thread_job.h"

namespace syncline::harness {

// kServers: threads, and two servers on their host; kHosts: threads two and two on hosts, and two
// servers on others.
enum class Wiring { kThreads, kShm, kTcp, kServers, kHosts };

// "Threads", "Shm", ...: for names of tests.
std::string to_string(Wiring wiring);

// Runs `body` once per rank, over threads or over forked processes. With processes a body sees a
// copy of the test's variables: it must check by itself and through collectives. Failures and
// exceptions become failures of the running test; what hangs is ended after `limit`.
void run_on(Wiring wiring, int ranks, const RankBody& body,
            const SessionOptions& options = test_options(),
            std::chrono::seconds limit = std::chrono::seconds(120));

}  // namespace syncline::harness
