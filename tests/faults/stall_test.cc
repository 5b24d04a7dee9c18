// A rank that never calls: the ranks that wait name it and what it did last.
#include <gtest/gtest.h>

#include <thread>
#include <tuple>
#include <vector>

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

}  // namespace
}  // namespace syncline::faults
