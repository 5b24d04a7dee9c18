#include "tests/harness/thread_job.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "session/session_impl.h"

namespace syncline::harness {
namespace {

struct Watch {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<bool> ended;
  std::size_t left = 0;
};

std::string current_test() {
  const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
  return info == nullptr ? "?" : std::string(info->test_suite_name()) + "." + info->name();
}

[[noreturn]] void give_up(const Watch& watch, std::chrono::seconds limit) {
  std::string ranks;
  for (std::size_t r = 0; r < watch.ended.size(); ++r) {
    if (!watch.ended[r]) ranks += (ranks.empty() ? "" : ", ") + std::to_string(r);
  }
  std::printf("[  FAILED  ] %s: hangs: rank %s of %zu not finished after %lld s\n",
              current_test().c_str(), ranks.c_str(), watch.ended.size(),
              static_cast<long long>(limit.count()));
  std::fflush(stdout);
  ::_exit(1);
}

void run_one(std::size_t rank, Session session, const RankBody& body) {
  try {
    body(session);
  } catch (const std::exception& error) {
    ADD_FAILURE() << "rank " << rank << " threw: " << error.what();
  }
}

void run_sessions(std::vector<Session> sessions, const RankBody& body, std::chrono::seconds limit) {
  Watch watch;
  watch.ended.resize(sessions.size());
  watch.left = sessions.size();
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < sessions.size(); ++r) {
    threads.emplace_back([&, r, session = std::move(sessions[r])]() mutable {
      run_one(r, std::move(session), body);
      const std::lock_guard lock(watch.mutex);
      watch.ended[r] = true;
      --watch.left;
      watch.changed.notify_all();
    });
  }
  {
    std::unique_lock lock(watch.mutex);
    if (!watch.changed.wait_for(lock, limit, [&] { return watch.left == 0; })) {
      give_up(watch, limit);
    }
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

SessionOptions test_options() {
  SessionOptions options;
  options.timeout = std::chrono::seconds(60);
  options.connect_timeout = std::chrono::seconds(20);
  return options;
}

void run_ranks(int ranks, const RankBody& body, const SessionOptions& options,
               std::chrono::seconds limit) {
  run_sessions(init_threads(ranks, options), body, limit);
}

void run_ranks_on_hosts(const std::vector<int>& host_of, const RankBody& body,
                        const SessionOptions& options, std::chrono::seconds limit) {
  run_sessions(open_threads(options, host_of), body, limit);
}

void run_ranks_with_servers(const std::vector<int>& host_of, const std::vector<int>& server_hosts,
                            const RankBody& body, const SessionOptions& options,
                            std::chrono::seconds limit) {
  run_sessions(start_threads(options, host_of, server_hosts), body, limit);
}

}  // namespace syncline::harness
