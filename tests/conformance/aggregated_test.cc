// All-reduce through servers, schedule "aggregator"; ranks and servers are threads.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "session/session_impl.h"
#include "syncline/batch.h"
#include "tests/conformance/each_wiring.h"
#include "tests/conformance/matrix.h"
#include "tests/harness/instrumented.h"
#include "tests/harness/thread_job.h"

namespace syncline::conformance {
namespace {

constexpr const char* kSchedule = "aggregator";

CallOptions by_aggregators() {
  CallOptions options;
  options.schedule = kSchedule;
  return options;
}

void run_aggregated(int ranks, int aggregators, const harness::RankBody& body,
                    const SessionOptions& options = harness::test_options()) {
  std::vector<std::thread> threads;
  for (Session& each : init_threads(ranks, options, aggregators)) {
    threads.emplace_back([&body, session = std::move(each)]() mutable {
      try {
        body(session);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << session.rank() << ": " << error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

class AggregatedThreads : public ::testing::TestWithParam<std::pair<int, int>> {};

TEST_P(AggregatedThreads, EveryTypeOperationAndCount) {
  const auto [ranks, aggregators] = GetParam();
  run_aggregated(ranks, aggregators, [](Session& session) {
    CaseRunner runner(session.world());
    std::size_t turn = 0;
    const auto visit = [&](Case what) {
      if (!what.schedule.empty()) return;  // once each
      what.schedule = kSchedule;
      for (const std::size_t large : {std::size_t{0}, std::size_t{70001}, std::size_t{300000}}) {
        if (large > 0 && ++turn % (harness::kInstrumented ? 61 : 13) != 0) continue;
        if (large > 0) what.count = large;
        const std::string wrong = runner.run(what);
        EXPECT_EQ(wrong, "") << describe(what, session.world_size());
      }
    };
    for_each_small(Collective::kAllReduce, session.world_size(), visit);
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, AggregatedThreads,
                         ::testing::Values(std::pair(1, 1), std::pair(2, 1), std::pair(3, 1),
                                           std::pair(2, 2), std::pair(5, 3)),
                         [](const auto& param) {
                           return std::to_string(param.param.first) + "_by_" +
                                  std::to_string(param.param.second);
                         });

// More than the aggregators keep under way, in a batch too, and beside other schedules.
TEST(AggregatedThreadsMore, SeveralInFlight) {
  run_aggregated(3, 2, [](Session& session) {
    constexpr std::size_t kCount = 200000;
    Communicator& world = session.world();
    Communicator own = world.split(0);
    std::vector<std::vector<float>> data(24, std::vector<float>(kCount, 1.0f));
    std::vector<Work> works;
    for (std::size_t i = 0; i < data.size(); ++i) {
      Communicator& group = i % 3 == 0 ? own : world;
      CallOptions options = by_aggregators();
      if (i % 2 == 0) options.schedule = i % 4 == 0 ? "" : kSchedule;
      works.push_back(group.all_reduce({data[i].data(), kCount}, ReduceOp::kSum, options));
    }
    Batch batch;
    Communicator batched = batch.on(world);
    std::vector<float> more(1000, 2.0f);
    batched.all_reduce({more.data(), more.size()}, ReduceOp::kAverage, by_aggregators());
    batch.start().wait();
    for (Work& work : works) work.wait();
    for (const auto& each : data) EXPECT_EQ(each, std::vector<float>(kCount, 3.0f));
    EXPECT_EQ(more, std::vector<float>(1000, 2.0f));
  });
}

// Some have a sum from the aggregator, others get it from each other: the same bits.
TEST(AggregatedThreadsMore, CallsOutliveAnAggregator) {
  for (unsigned round = 0; round < 12; ++round) {
    ThreadJob job = open_threads(harness::test_options(), {0, 0, 0}, {0, 0});
    for (auto& server : job.servers) server->start_aggregator();
    std::atomic<int> begun{0};
    std::vector<std::vector<std::vector<float>>> results(job.sessions.size());
    std::vector<std::thread> threads;
    for (std::size_t r = 0; r < job.sessions.size(); ++r) {
      threads.emplace_back([&, r] {
        Communicator& world = job.sessions[r].world();
        std::vector<std::vector<float>> data;
        std::vector<Work> works;
        for (std::size_t i = 0; i < 60; ++i) {
          data.emplace_back(1 + i * 997 % 20000);
          for (std::size_t k = 0; k < data[i].size(); ++k) {
            data[i][k] = 1.0f / static_cast<float>(1 + (k + 31 * r + i) % 977);
          }
        }
        for (std::size_t i = 0; i < data.size(); ++i) {
          works.push_back(
              world.all_reduce({data[i].data(), data[i].size()}, ReduceOp::kSum, by_aggregators()));
          ++begun;
          if (i % (3 + r) == 0) works.back().wait();
        }
        for (Work& work : works) work.wait();
        results[r] = std::move(data);
      });
    }
    while (begun < static_cast<int>(5 + 13 * round)) std::this_thread::yield();
    job.servers[round % 2].reset();
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(results[0], results[2]);
    for (const auto& sum : results[0]) EXPECT_NEAR(sum[0], 1.0f / 1 + 1.0f / 32 + 1.0f / 63, 2.0f);
    EXPECT_TRUE(!results[0].empty());
  }
}

// A worker's death is no matter of aggregators: calls fail and name it.
TEST(AggregatedThreadsMore, AWorkersDeathStillFails) {
  ThreadJob job = open_threads(harness::test_options(), {0, 0, 0}, {0});
  for (auto& server : job.servers) server->start_aggregator();
  std::vector<Session> sessions = std::move(job.sessions);
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < sessions.size(); ++r) {
    threads.emplace_back([&, r, session = std::move(sessions[r])]() mutable {
      std::vector<float> x(1000, 1.0f);
      session.world().all_reduce({x.data(), x.size()}, ReduceOp::kSum, by_aggregators()).wait();
      if (r == 2) return;  // leaves
      try {
        for (;;) {
          session.world().all_reduce({x.data(), x.size()}, ReduceOp::kSum, by_aggregators()).wait();
        }
      } catch (const Error& error) {
        EXPECT_EQ(error.status().peer(), 2) << error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// In the canonical order: the same bits as other schedules give reproducibly.
TEST(AggregatedThreadsMore, IsReproducible) {
  run_aggregated(5, 2, [](Session& session) {
    constexpr std::size_t kCount = 50001;
    std::vector<float> a(kCount), b;
    for (std::size_t i = 0; i < kCount; ++i) {
      a[i] = 1.0f / static_cast<float>(1 + i % 977 + 31 * static_cast<std::size_t>(session.rank()));
    }
    b = a;
    CallOptions options = by_aggregators();
    options.reproducible = true;
    session.world().all_reduce({a.data(), kCount}, ReduceOp::kSum, options).wait();
    options.schedule = "tree";
    session.world().all_reduce({b.data(), kCount}, ReduceOp::kSum, options).wait();
    EXPECT_EQ(a, b);
  });
}

TEST(AggregatedThreadsMore, AsTheSessionsSchedule) {
  SessionOptions options = harness::test_options();
  options.schedule = kSchedule;
  run_aggregated(
      2, 1,
      [](Session& session) {
        EXPECT_TRUE(works(session.world()));
        std::vector<float> x(4, static_cast<float>(session.rank()));
        session.world().broadcast({x.data(), x.size()}, 1).wait();  // yields
        EXPECT_EQ(x[3], 1.0f);
        Communicator alone = session.world().split(session.rank());
        EXPECT_TRUE(works(alone));
      },
      options);
}

TEST(AggregatedThreadsMore, WhatCannotRunIsRefused) {
  harness::run_ranks(2, [](Session& session) {
    std::vector<float> x(4, 1.0f);
    EXPECT_EQ(code_of([&] {
                session.world().all_reduce({x.data(), 4}, ReduceOp::kSum, by_aggregators());
              }),
              Code::kUnsupported);
  });
  run_aggregated(2, 1, [](Session& session) {
    std::vector<float> x(4, 1.0f);
    EXPECT_EQ(code_of([&] {
                session.world().broadcast({x.data(), 4}, 0, by_aggregators());
              }),
              Code::kUnsupported);
    Communicator alone = session.world().split(session.rank());
    EXPECT_EQ(code_of([&] {
                alone.all_reduce({x.data(), 4}, ReduceOp::kSum, by_aggregators());
              }),
              Code::kUnsupported);
    EXPECT_TRUE(works(session.world()));
  });
}

// Ranks that disagree are told so, and hang not.
TEST(AggregatedThreadsMore, DisagreementIsAMismatch) {
  run_aggregated(2, 1, [](Session& session) {
    std::vector<float> x(100, 1.0f);
    const std::size_t count = session.rank() == 0 ? 100 : 99;
    const Status status = session.world()
                              .all_reduce({x.data(), count}, ReduceOp::kSum, by_aggregators())
                              .wait_for(std::chrono::seconds(20));
    EXPECT_EQ(status.code(), Code::kMismatch) << status.to_string();
    EXPECT_TRUE(works(session.world())) << "other schedules go on";
  });
}

}  // namespace
}  // namespace syncline::conformance
