// How processes end, and signals that are none of our business: HANG-03, HANG-06, HANG-08.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>
#include <vector>

#include "tests/faults/fault_job.h"

namespace syncline::faults {
namespace {

using namespace std::chrono_literals;
using harness::ProcessJob;
using harness::ProcessOptions;

class Exit : public ::testing::TestWithParam<const char*> {
 protected:
  ProcessOptions options() const {
    ProcessOptions process;
    process.transport = GetParam();
    process.limit = 60s;
    return process;
  }
};

// Ranks that have finished their first sum. Who dies before all have may spoil the others' (theirs
// to report, but not what these tests ask).
class Finished {
 public:
  void add() { ++*count_; }
  void await(int ranks) const {
    while (*count_ < ranks) std::this_thread::sleep_for(1ms);
  }

 private:
  harness::Shared<std::atomic<int>> count_;
};

float reduced(Session& session, std::size_t count = 1000) {
  std::vector<float> data(count, 1.0f);
  session.world().all_reduce({data.data(), count}).wait();
  return data[count - 1];
}

// The peer's end may be known before the next call is made: then that call is refused and says why.
void expect_loss(const Status& status, int peer) {
  const bool earlier = status.code() == Code::kFailedPrecondition && status.cause() != nullptr;
  const Status& loss = earlier ? *status.cause() : status;
  EXPECT_EQ(loss.code(), Code::kPeerLost) << status.to_string();
  EXPECT_EQ(loss.peer(), peer) << status.to_string();
}

TEST_P(Exit, Hang06FirstRankLeavesEarly) {
  const auto start = std::chrono::steady_clock::now();
  ProcessJob job(
      3,
      [](Session& session) {
        EXPECT_EQ(reduced(session), 3.0f);
        if (session.rank() != 0) std::this_thread::sleep_for(700ms);
      },
      options());
  job.expect_success();
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
  for (int r = 0; r < 3; ++r) {
    for (const char* word : {"error", "lost", "suspect", "died"}) {
      EXPECT_EQ(job.log(r).find(word), std::string::npos) << job.log(r);
    }
  }
}

TEST_P(Exit, Hang06WithoutDestroying) {
  for (const int ranks : {1, 2, 3}) {
    ProcessJob job(
        ranks,
        [ranks](int rank) {
          auto* leaked = new Session(init(harness::test_options()));
          EXPECT_EQ(reduced(*leaked), static_cast<float>(ranks));
          leaked->world().barrier().wait();
          if (rank == 0) std::exit(::testing::Test::HasFailure() ? 1 : 0);
        },
        options());
    job.expect_success();
  }
}

TEST_P(Exit, Hang03ExceptionReachesThePeers) {
  ProcessJob job(
      3,
      [](Session& session) {
        EXPECT_EQ(reduced(session), 3.0f);
        if (session.rank() == 2) return;  // as if an exception unwound the session
        try {
          reduced(session);
          ADD_FAILURE() << "rank 2 did not take part";
        } catch (const Error& error) {
          expect_loss(error.status(), 2);
        }
      },
      options());
  job.expect_success();
}

TEST_P(Exit, Hang03SuddenExitIsALoss) {
  for (const int how : {0, 3, -SIGSEGV}) {
    const auto start = std::chrono::steady_clock::now();
    Finished finished;
    ProcessJob job(
        3,
        [how, &finished](Session& session) {
          EXPECT_EQ(reduced(session), 3.0f);
          finished.add();
          if (session.rank() == 2) finished.await(3);
          if (session.rank() == 2 && how >= 0) ::_exit(how);
          if (session.rank() == 2) {
            ::signal(-how, SIG_DFL);
            ::raise(-how);
          }
          const auto begin = std::chrono::steady_clock::now();
          try {
            reduced(session);
            ADD_FAILURE() << "rank 2 did not take part";
          } catch (const Error& error) {
            expect_loss(error.status(), 2);
          }
          EXPECT_LT(std::chrono::steady_clock::now() - begin, 3s);
        },
        options());
    EXPECT_EQ(job.wait(0).code, 0) << job.log(0);
    EXPECT_EQ(job.wait(1).code, 0) << job.log(1);
    job.wait(2);
    EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
  }
}

TEST_P(Exit, Hang08SigpipeIsLeftAlone) {
  Finished finished;
  ProcessJob job(
      2,
      [&finished](int rank) {
        const auto disposition = [] {
          struct sigaction action {};
          ::sigaction(SIGPIPE, nullptr, &action);
          return action.sa_handler;
        };
        ASSERT_EQ(disposition(), SIG_DFL);
        Session session = init(harness::test_options());
        EXPECT_EQ(disposition(), SIG_DFL);
        EXPECT_EQ(reduced(session), 2.0f);
        finished.add();
        if (rank == 1) {
          finished.await(2);
          ::raise(SIGKILL);
        }
        // Goes on writing to a process that is gone.
        std::vector<float> data(1 << 20, 1.0f);
        const Status status = session.world().all_reduce({data.data(), data.size()}).wait_for(20s);
        expect_loss(status, 1);
        EXPECT_EQ(disposition(), SIG_DFL);
      },
      options());
  const auto survivor = job.wait(0);
  EXPECT_EQ(survivor.signal, 0) << "killed by a signal";
  EXPECT_EQ(survivor.code, 0) << job.log(0);
  job.wait(1);
}

TEST_P(Exit, Hang08TimerSignalsDoNotHurt) {
  ProcessJob job(
      2,
      [](Session& session) {
        static std::atomic<int> ticks{0};
        struct sigaction action {};
        action.sa_handler = [](int) { ++ticks; };  // without SA_RESTART
        ::sigaction(SIGALRM, &action, nullptr);
        const itimerval timer{{0, 1000}, {0, 1000}};
        ::setitimer(ITIMER_REAL, &timer, nullptr);
        const std::size_t count = (64 << 20) / sizeof(float);
        for (int i = 0; i < 3; ++i) {
          std::vector<float> data(count, static_cast<float>(session.rank() + i));
          session.world().all_reduce({data.data(), count}).wait();
          std::size_t wrong = 0;
          for (const float x : data) wrong += x == static_cast<float>(1 + 2 * i) ? 0 : 1;
          EXPECT_EQ(wrong, 0u);
        }
        const itimerval off{};
        ::setitimer(ITIMER_REAL, &off, nullptr);
        EXPECT_GT(ticks.load(), 5);
      },
      options());
  job.expect_success();
}

INSTANTIATE_TEST_SUITE_P(Over, Exit, ::testing::Values("shm", "tcp"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace syncline::faults
