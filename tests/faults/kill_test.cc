// SIGKILL of a rank in the middle of an all_reduce.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <random>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/faults/fault_job.h"

namespace syncline::faults {
namespace {

constexpr Millis kPromised(1000);  // every survivor knows by then

// Kills `victim` after `delay` of work; returns how long each survivor took to notice.
std::vector<Millis> kill_one(const std::string& transport, int ranks, int victim, Millis delay) {
  const auto names = shared_memory_names();
  std::vector<Millis> spans;
  {
    FaultJob job(ranks, transport, std::size_t{1} << 20);
    EXPECT_TRUE(job.await_rounds(2));
    std::this_thread::sleep_for(delay);
    job.strike(victim, SIGKILL);
    EXPECT_EQ(job.processes().wait(victim).signal, SIGKILL);
    for (int r = 0; r < ranks; ++r) {
      if (r == victim) continue;
      const auto exit = job.processes().wait(r);
      const Report& report = job.report(r);
      EXPECT_EQ(exit.code, 0) << "rank " << r << (exit.ended ? "" : " hung") << ", its log:\n"
                              << job.processes().log(r);
      EXPECT_EQ(report.code, static_cast<int>(Code::kPeerLost)) << report.text;
      EXPECT_EQ(report.peer, victim) << report.text;
      const std::string name = "rank " + std::to_string(victim);
      EXPECT_NE(std::string(report.text).find(name), std::string::npos) << report.text;
      EXPECT_EQ(report.next_code, static_cast<int>(Code::kFailedPrecondition));
      EXPECT_EQ(report.wrong, 0);
      EXPECT_LE(job.since_strike(r), kPromised) << report.text;
      spans.push_back(job.since_strike(r));
    }
  }
  EXPECT_EQ(shared_memory_names(), names) << "something is left in /dev/shm";
  return spans;
}

class Kill : public ::testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(Kill, EveryRankInTurn) {
  const auto [transport, ranks] = GetParam();
  for (int victim = 0; victim < ranks; ++victim) {
    SCOPED_TRACE("victim " + std::to_string(victim));
    kill_one(transport, ranks, victim, Millis(3 * victim));
  }
}

struct Waiting {
  std::atomic<int> ready;
  std::atomic<std::int64_t> struck_at;
};

// Sends and receives that wait for a rank end when it dies, also those from any source.
TEST_P(Kill, EndsMessages) {
  const auto [transport, ranks] = GetParam();
  harness::Shared<Waiting> board;
  harness::ProcessOptions options;
  options.transport = transport;
  harness::ProcessJob job(
      ranks,
      [&board, ranks = ranks](Session& session) {
        Communicator& world = session.world();
        std::vector<float> x(1 << 20), y(4), z(4);
        const int victim = ranks - 1;
        std::vector<Work> works;
        if (world.rank() != victim) {
          works = {world.send({x.data(), x.size()}, victim), world.recv({y.data(), 4}, victim),
                   world.recv({z.data(), 4}, kAnySource)};
        }
        ++board->ready;
        if (works.empty()) world.recv({y.data(), 4}, victim).wait();  // until it is killed
        for (Work& work : works) {
          const Status status = work.wait_for(std::chrono::seconds(20));
          EXPECT_EQ(status.code(), Code::kPeerLost) << status.to_string();
          EXPECT_EQ(status.peer(), victim) << status.to_string();
          EXPECT_LE(Millis((now_ns() - board->struck_at) / 1000000), kPromised);
        }
        EXPECT_EQ(world.send({x.data(), 1}, 0).wait_for(std::chrono::seconds(5)).code(),
                  Code::kFailedPrecondition);
      },
      options);
  ASSERT_TRUE(await([&board, ranks = ranks] { return board->ready == ranks; }, Millis(30000)));
  board->struck_at = now_ns();
  job.signal(ranks - 1, SIGKILL);
  for (int r = 0; r < ranks - 1; ++r) EXPECT_EQ(job.wait(r).code, 0) << job.log(r);
}

INSTANTIATE_TEST_SUITE_P(Over, Kill,
                         ::testing::Combine(::testing::Values("shm", "tcp"),
                                            ::testing::Values(2, 3, 4)),
                         transport_and_ranks<::testing::TestParamInfo<Kill::ParamType>>);

TEST(KillLoop, FiftyTimesInARow) {
  std::mt19937 random(50);
  std::vector<Millis> spans;
  for (int i = 0; i < 50 && !::testing::Test::HasFailure(); ++i) {
    const int ranks = 2 + i % 3;
    const int victim = static_cast<int>(random() % static_cast<unsigned>(ranks));
    const char* transport = i % 2 == 0 ? "shm" : "tcp";
    SCOPED_TRACE(std::string(transport) + ", round " + std::to_string(i) + ", victim " +
                 std::to_string(victim) + " of " + std::to_string(ranks));
    const auto more = kill_one(transport, ranks, victim, Millis(random() % 20));
    spans.insert(spans.end(), more.begin(), more.end());
  }
  ASSERT_FALSE(spans.empty());
  std::sort(spans.begin(), spans.end());
  RecordProperty("median_ms", static_cast<int>(spans[spans.size() / 2].count()));
  RecordProperty("slowest_ms", static_cast<int>(spans.back().count()));
}

}  // namespace
}  // namespace syncline::faults
