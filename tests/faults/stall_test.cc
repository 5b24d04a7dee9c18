// A rank that calls late or never: the ranks that wait name it and what it did last.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "base/env.h"
#include "tests/faults/fault_job.h"

namespace syncline::faults {
namespace {

using namespace std::chrono_literals;
using harness::ProcessJob;
using harness::ProcessOptions;

constexpr auto kStall = 500ms;

class Stall : public ::testing::TestWithParam<std::tuple<const char*, int>> {
 protected:
  int ranks() const { return std::get<1>(GetParam()); }
  ProcessOptions options() const {
    ProcessOptions process;
    process.transport = std::get<0>(GetParam());
    process.session.stall = kStall;
    process.limit = 60s;
    return process;
  }
};

void reduce(Session& session, const char* name, std::size_t count) {
  std::vector<float> data(count, 1.0f);
  CallOptions options;
  options.name = name;
  session.world().all_reduce({data.data(), count}, ReduceOp::kSum, options).wait();
}

// When `text` appeared in the log; the limit if it did not.
std::chrono::milliseconds await_text(const ProcessJob& job, int rank, const std::string& text,
                                     std::chrono::milliseconds limit) {
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - start < limit) {
    if (job.log(rank).find(text) != std::string::npos) break;
    std::this_thread::sleep_for(5ms);
  }
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                               start);
}

TEST_P(Stall, WhoNeverCallsIsNamedWithItsLastOperation) {
  const int absent = ranks() - 1;
  for (const std::size_t count : {std::size_t{1000}, std::size_t{1} << 20}) {
    ProcessJob job(
        ranks(),
        [absent, count](Session& session) {
          reduce(session, "first", 500);
          if (session.rank() == absent) std::this_thread::sleep_for(2500ms);
          reduce(session, "second", count);
        },
        options());
    const std::string named = "rank " + std::to_string(absent);
    // The first operation takes milliseconds, start-up less than a second.
    for (int r = 0; r < absent; ++r) {
      EXPECT_LT(await_text(job, r, "has not called it", 4s), 1000ms + kStall + 2000ms)
          << job.log(r);
    }
    job.expect_success();
    for (int r = 0; r < absent; ++r) {
      const std::string log = job.log(r);
      const auto line = log.find("has not called it");
      ASSERT_NE(line, std::string::npos) << log;
      const std::string verdict = log.substr(log.rfind('\n', line) + 1, 300);
      for (const std::string& word :
           {named, std::string("'second'"), std::string("#1 all_reduce"), std::string("'first'")}) {
        EXPECT_NE(verdict.find(word), std::string::npos) << word << " is not in: " << verdict;
      }
    }
    EXPECT_EQ(job.log(absent).find("stall"), std::string::npos) << job.log(absent);
  }
}

TEST_P(Stall, TimeoutRepeatsTheVerdict) {
  ProcessOptions process = options();
  process.session.timeout = 1500ms;
  const int absent = ranks() - 1;
  ProcessJob job(
      ranks(),
      [absent](Session& session) {
        if (session.rank() == absent) {
          std::this_thread::sleep_for(2500ms);
          return;
        }
        float x = 1;
        const Status status = session.world().all_reduce({&x, 1}).wait_for(10s);
        EXPECT_EQ(status.code(), Code::kTimeout) << status.to_string();
        EXPECT_NE(status.to_string().find("has called nothing"), std::string::npos)
            << status.to_string();
      },
      process);
  job.expect_success();
}

INSTANTIATE_TEST_SUITE_P(Over, Stall,
                         ::testing::Combine(::testing::Values("shm", "tcp"),
                                            ::testing::Values(2, 3)),
                         transport_and_ranks<::testing::TestParamInfo<Stall::ParamType>>);

// HANG-05: rank 0 is alive and busy with work of its own between two calls. Scaled down, the
// figures being seconds; SYNCLINE_BUSY_SCALE=5 makes the deadline 5 s.
class Busy : public Stall {
 protected:
  static int scale() { return std::max(1, std::stoi(env("SYNCLINE_BUSY_SCALE").value_or("1"))); }
  ProcessOptions options(std::chrono::milliseconds timeout) const {
    ProcessOptions process = Stall::options();
    process.session.stall = kStall * scale();
    process.session.silence = 2500ms * scale();  // heartbeats must go on meanwhile
    process.session.timeout = timeout * scale();
    return process;
  }
};

float sum_of_ranks(Session& session) {
  float x = static_cast<float>(session.rank() + 1);
  session.world().all_reduce({&x, 1}).wait();
  return x;
}

// The default way: `stall` reports, and the far deadline leaves room.
TEST_P(Busy, IsWaitedForAndReportedAgainAndAgain) {
  const auto busy = 4000ms * scale();  // the second report comes after 3.5 s
  ProcessJob job(
      ranks(),
      [busy](Session& session) {
        const auto n = static_cast<float>(session.world_size());
        EXPECT_EQ(sum_of_ranks(session), n * (n + 1) / 2);
        if (session.rank() == 0) std::this_thread::sleep_for(busy);
        EXPECT_EQ(sum_of_ranks(session), n * (n + 1) / 2);
      },
      options(60s));
  job.expect_success();
  for (int r = 1; r < ranks(); ++r) {
    const std::string log = job.log(r);
    const auto first = log.find("has not called it");
    ASSERT_NE(first, std::string::npos) << log;
    EXPECT_EQ(log.rfind("rank 0", first), log.rfind("rank ", first)) << log;
    EXPECT_NE(log.find("has not called it", first + 1), std::string::npos) << "once only: " << log;
    const std::string duration = "has not moved for ";
    const auto again = log.rfind(duration);
    EXPECT_GE(std::stod(log.substr(again + duration.size())), 3.0 * scale()) << log;
  }
}

TEST_P(Busy, IsNamedAsLateWhenTheDeadlinePasses) {
  const auto busy = 2000ms * scale();
  ProcessJob job(
      ranks(),
      [busy](Session& session) {
        sum_of_ranks(session);
        if (session.rank() == 0) std::this_thread::sleep_for(busy);
        float x = 1;
        const Status status = session.world().all_reduce({&x, 1}).wait_for(10s);
        EXPECT_FALSE(status.ok());
        if (session.rank() == 0) return;
        EXPECT_EQ(status.code(), Code::kTimeout) << status.to_string();
        EXPECT_EQ(status.peer(), 0) << status.to_string();
        EXPECT_NE(status.to_string().find("has not called it"), std::string::npos)
            << status.to_string();
      },
      options(1000ms));
  job.expect_success();
}

INSTANTIATE_TEST_SUITE_P(Over, Busy, ::testing::Values(std::tuple{"shm", 2}, std::tuple{"tcp", 3}),
                         transport_and_ranks<::testing::TestParamInfo<Busy::ParamType>>);

}  // namespace
}  // namespace syncline::faults
