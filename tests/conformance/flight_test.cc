// Works: many in flight, several threads, callbacks, deadlines of waiting, dropped handles.
#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include "tests/conformance/each_wiring.h"

namespace syncline::conformance {
namespace {

using harness::Bytes;
using namespace std::chrono_literals;

class Flight : public EachWiring {};
SYNCLINE_ON_EACH_WIRING(Flight);

TEST_P(Flight, ManyWorksEndInAnyOrder) {
  run(3, [](Session& session) {
    std::vector<std::vector<std::int32_t>> data;
    std::vector<Work> works;
    for (std::size_t i = 0; i < 40; ++i) {
      data.emplace_back(1 + i * i * 40, session.rank() + static_cast<int>(i));
    }
    for (auto& vector : data) {
      works.push_back(session.world().all_reduce({vector.data(), vector.size()}));
    }
    for (std::size_t i = works.size(); i-- > 0;) {
      works[i].wait();
      EXPECT_EQ(data[i], std::vector<std::int32_t>(data[i].size(), 3 + 3 * static_cast<int>(i)));
    }
  });
}

TEST_P(Flight, KindsMix) {
  run(4, [](Session& session) {
    Communicator& world = session.world();
    const int rank = session.rank();
    for (int round = 0; round < 10; ++round) {
      std::vector<float> sum(3001, 1.0f), all(4 * 70), block(70, static_cast<float>(rank));
      std::vector<float> part(40), whole(160, 2.0f), sent(9000, rank == 2 ? 7.0f : 0.0f);
      std::vector<Work> works;
      works.push_back(world.all_reduce({sum.data(), sum.size()}));
      works.push_back(world.all_gather({block.data(), 70}, {all.data(), all.size()}));
      works.push_back(world.reduce_scatter({whole.data(), 160}, {part.data(), 40}));
      works.push_back(world.barrier());
      works.push_back(world.broadcast({sent.data(), sent.size()}, 2));
      works.push_back(world.reduce({whole.data(), 160}, 1));
      for (Work& work : works) work.wait();
      EXPECT_EQ(sum[3000], 4.0f);
      EXPECT_EQ(all[3 * 70], 3.0f);
      EXPECT_EQ(part[39], 8.0f);
      EXPECT_EQ(sent[8999], 7.0f);
      EXPECT_EQ(whole[159], rank == 1 ? 8.0f : 2.0f);
    }
  });
}

// More than take turns at once, and each rank starts them in an order of its own.
TEST_P(Flight, ManyLongWorksOfCrossedGroups) {
  run(3, [](Session& session) {
    std::vector<Communicator> groups{session.world(), session.world().split(0)};
    if (session.rank() == 1) std::swap(groups[0], groups[1]);
    std::vector<std::vector<float>> data(24, std::vector<float>(100000, 1.0f));
    std::vector<Work> works;
    for (std::size_t i = 0; i < data.size(); ++i) {
      works.push_back(groups[i / 12].all_reduce({data[i].data(), data[i].size()}));
    }
    float last = 1;
    session.world().all_reduce({&last, 1}).wait();
    EXPECT_EQ(last, 3.0f);
    for (Work& work : works) work.wait();
    for (const auto& vector : data) EXPECT_EQ(vector, std::vector<float>(100000, 3.0f));
  });
}

// One call after another is made with the same memory of the engine: whatever a call differs in
// from the one before must count. Each comes twice, so that both ways of starting it run.
TEST_P(Flight, CallsThatDifferInOneThing) {
  run(3, [](Session& session) {
    Communicator& world = session.world();
    Communicator other = world.split(0, -world.rank());
    const auto rank = static_cast<float>(world.rank());
    const auto reduced = [&](Communicator& group, std::size_t count, ReduceOp op,
                             const CallOptions& options, float expected) {
      for (int turn = 0; turn < 2; ++turn) {
        std::vector<float> data(count, rank + 1);
        group.all_reduce({data.data(), count}, op, options).wait();
        EXPECT_EQ(data, std::vector<float>(count, expected));
      }
    };
    const auto sent = [&](int root) {
      for (int turn = 0; turn < 2; ++turn) {
        std::vector<float> data(8, rank);
        world.broadcast({data.data(), 8}, root).wait();
        EXPECT_EQ(data[7], static_cast<float>(root));
      }
    };
    CallOptions named, ring, reproducible;
    named.name = "named";
    ring.schedule = "ring";
    reproducible.reproducible = true;
    for (int round = 0; round < 3; ++round) {
      reduced(world, 8, ReduceOp::kSum, {}, 6);
      reduced(world, 9, ReduceOp::kSum, {}, 6);
      reduced(other, 9, ReduceOp::kSum, {}, 6);
      reduced(world, 9, ReduceOp::kMax, {}, 3);
      reduced(world, 9, ReduceOp::kAverage, {}, 2);
      reduced(world, 9, ReduceOp::kAverage, named, 2);
      reduced(world, 9, ReduceOp::kAverage, {}, 2);
      reduced(world, 9, ReduceOp::kAverage, reproducible, 2);
      reduced(world, 9, ReduceOp::kAverage, ring, 2);
      std::vector<std::int64_t> whole(9, world.rank() + 1);
      world.all_reduce({whole.data(), 9}, ReduceOp::kSum, ring).wait();
      EXPECT_EQ(whole, std::vector<std::int64_t>(9, 6));
      reduced(world, 9, ReduceOp::kSum, ring, 6);
      reduced(world, 1 << 20, ReduceOp::kSum, ring, 6);
      reduced(world, 8, ReduceOp::kSum, {}, 6);
      for (int root = 0; root < 3; ++root) sent(root);
      reduced(other, 8, ReduceOp::kSum, {}, 6);
    }
  });
}

// Whether or not the call has ended by itself when it returns.
TEST(FlightThreads, WorksOfCallsThatEndAtOnce) {
  harness::run_on(
      harness::Wiring::kThreads, 1,
      [](Session& session) {
        float x = 5;
        Work work = session.world().all_reduce({&x, 1});
        EXPECT_TRUE(work.done());
        EXPECT_TRUE(work.status().ok());
        EXPECT_TRUE(work.wait_for(0ms).ok());
        bool told = false;
        work.on_complete([&](const Status& status) { told = status.ok(); });
        EXPECT_TRUE(told);
      },
      harness::test_options());
}

TEST_P(Flight, ThreadsUseTheirOwnGroups) {
  run(3, [](Session& session) {
    std::vector<Communicator> groups;
    for (int i = 0; i < 3; ++i) groups.push_back(session.world().split(0));
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (Communicator& group : groups) {
      threads.emplace_back([&wrong, &group] {
        for (std::size_t i = 0; i < 40; ++i) {
          if (!works(group, 1 + i * 300)) ++wrong;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong.load(), 0);
  });
}

TEST_P(Flight, AnotherThreadMayWait) {
  run(2, [](Session& session) {
    std::vector<double> data(100000, session.rank() + 1.0);
    Work work = session.world().all_reduce({data.data(), data.size()});
    std::thread([copy = work]() mutable { copy.wait(); }).join();
    EXPECT_TRUE(work.done());
    EXPECT_EQ(data[99999], 3.0);
  });
}

TEST_P(Flight, CallbackRunsExactlyOnce) {
  run(2, [](Session& session) {
    std::atomic<int> before{0}, after{0};
    for (int i = 0; i < 50; ++i) {
      std::vector<float> data(1000, 1.0f);
      Work work = session.world().all_reduce({data.data(), data.size()});
      std::promise<Status> promise;
      work.on_complete([&](const Status& status) {
        ++before;
        promise.set_value(status);
      });
      auto future = promise.get_future();
      ASSERT_EQ(future.wait_for(20s), std::future_status::ready) << "nobody waits for the work";
      EXPECT_TRUE(future.get().ok());
      work.wait();
      work.on_complete([&](const Status& status) { after += status.ok() ? 1 : 100; });
      EXPECT_EQ(data[999], 2.0f);
    }
    EXPECT_EQ(before.load(), 50);
    EXPECT_EQ(after.load(), 50);
  });
}

TEST_P(Flight, CallbackMayStartTheNextWork) {
  run(3, [](Session& session) {
    std::vector<std::int64_t> data(300, session.rank());
    std::promise<void> finished;
    std::atomic<int> rounds{0};
    std::function<void(const Status&)> next = [&](const Status& status) {
      EXPECT_TRUE(status.ok()) << status.to_string();
      if (!status.ok() || ++rounds == 6) return finished.set_value();
      session.world().all_reduce({data.data(), data.size()}).on_complete(next);
    };
    session.world().all_reduce({data.data(), data.size()}).on_complete(next);
    ASSERT_EQ(finished.get_future().wait_for(20s), std::future_status::ready);
    EXPECT_EQ(data[299], 3 * 3 * 3 * 3 * 3 * 3);  // 0 + 1 + 2, then times three each round
  });
}

TEST_P(Flight, WaitForEndsAtItsLimitAndTheWorkGoesOn) {
  run(2, [](Session& session) {
    Communicator other = session.world().split(0);
    std::vector<float> data(5000, 1.0f);
    if (session.rank() == 1) other.barrier().wait();
    Work work = session.world().all_reduce({data.data(), data.size()});
    if (session.rank() == 0) {
      const auto start = std::chrono::steady_clock::now();
      EXPECT_EQ(work.wait_for(30ms).code(), Code::kTimeout);
      EXPECT_GE(std::chrono::steady_clock::now() - start, 30ms);
      EXPECT_EQ(work.wait_for(0ms).code(), Code::kTimeout);
      EXPECT_FALSE(work.done());
      EXPECT_TRUE(work.status().ok());
      other.barrier().wait();
    }
    work.wait();
    EXPECT_TRUE(work.wait_for(0ms).ok());
    EXPECT_EQ(data[4999], 2.0f);
  });
}

TEST_P(Flight, DroppedWorksStillRun) {
  run(3, [](Session& session) {
    std::vector<std::vector<float>> data(20, std::vector<float>(2000, 1.0f));
    std::atomic<int> ended{0};
    for (auto& vector : data) {
      session.world().all_reduce({vector.data(), vector.size()}).on_complete([&](const Status&) {
        ++ended;
      });
    }
    session.world().barrier().wait();
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    while (ended < 20 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    ASSERT_EQ(ended.load(), 20);
    for (const auto& vector : data) EXPECT_EQ(vector[1999], 3.0f);
  });
}

TEST(FlightThreads, EmptyHandles) {
  Work work;
  EXPECT_TRUE(work.done());
  work.wait();
  EXPECT_TRUE(work.wait_for(0ms).ok());
  int calls = 0;
  work.on_complete([&](const Status& status) { calls += status.ok() ? 1 : 100; });
  EXPECT_EQ(calls, 1);

  Communicator none;
  EXPECT_FALSE(none.valid());
  float x = 0;
  EXPECT_EQ(code_of([&] { none.all_reduce({&x, 1}); }), Code::kFailedPrecondition);
  EXPECT_EQ(code_of([&] { none.broadcast({&x, 1}, 0); }), Code::kFailedPrecondition);
  EXPECT_EQ(code_of([&] { none.barrier(); }), Code::kFailedPrecondition);
  EXPECT_EQ(code_of([&] { none.split(0); }), Code::kFailedPrecondition);
  EXPECT_EQ(code_of([&] { (void)none.size(); }), Code::kFailedPrecondition);
  EXPECT_EQ(code_of([&] { (void)none.status(); }), Code::kFailedPrecondition);
}

}  // namespace
}  // namespace syncline::conformance
