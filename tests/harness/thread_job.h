// Ranks as threads of the test program.
#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "syncline/session.h"

namespace syncline::harness {

using RankBody = std::function<void(Session&)>;

// Short deadlines, so that a fault ends a test instead of stalling it.
SessionOptions test_options();

// Runs `body` once per rank, each in a thread with its own session, and returns when all have
// ended. Every rank's exception becomes a failure of the running test. The session leaves when its
// body ends. After `limit` the whole program ends with a line that names the test and the ranks
// that hang: threads cannot be killed.
void run_ranks(int ranks, const RankBody& body, const SessionOptions& options = test_options(),
               std::chrono::seconds limit = std::chrono::seconds(120));

// The same with rank r on host host_of[r], as far as plans and schedules know.
void run_ranks_on_hosts(const std::vector<int>& host_of, const RankBody& body,
                        const SessionOptions& options = test_options(),
                        std::chrono::seconds limit = std::chrono::seconds(120));

// The same with servers, of which server s is on host server_hosts[s].
void run_ranks_with_servers(const std::vector<int>& host_of, const std::vector<int>& server_hosts,
                            const RankBody& body, const SessionOptions& options = test_options(),
                            std::chrono::seconds limit = std::chrono::seconds(120));

}  // namespace syncline::harness
