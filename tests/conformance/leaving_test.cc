// Deadlines, sessions that leave, teardown in any order: HANG-03 (within a process), HANG-06.
#include <atomic>
#include <vector>

#include "tests/conformance/each_wiring.h"

namespace syncline::conformance {
namespace {

using namespace std::chrono_literals;

class Leaving : public EachWiring {};
SYNCLINE_ON_EACH_WIRING(Leaving);

TEST_P(Leaving, RankThatNeverCallsIsNamedAtTheDeadline) {
  run(3, [](Session& session) {
    Communicator late = session.world().split(0);
    if (session.rank() != 2) {
      float x = 1;
      CallOptions options;
      options.timeout = 300ms;
      const auto start = std::chrono::steady_clock::now();
      const Status status = late.all_reduce({&x, 1}, ReduceOp::kSum, options).wait_for(20s);
      const auto spent = std::chrono::steady_clock::now() - start;
      EXPECT_EQ(status.code(), Code::kTimeout) << status.to_string();
      EXPECT_NE(status.to_string().find("rank 2"), std::string::npos) << status.to_string();
      EXPECT_NE(status.to_string().find("all_reduce #1"), std::string::npos) << status.to_string();
      EXPECT_GE(spent, 250ms);
      EXPECT_LT(spent, 3s);
      EXPECT_FALSE(late.status().ok());
    }
    EXPECT_TRUE(works(session.world())) << "other groups live on";
  });
}

TEST_P(Leaving, SessionTimeoutBoundsEveryCall) {
  SessionOptions options = harness::test_options();
  options.timeout = 400ms;
  run(
      2,
      [](Session& session) {
        Communicator group = session.world().split(0);
        if (session.rank() == 0) {
          EXPECT_EQ(group.barrier().wait_for(20s).code(), Code::kTimeout);
        }
        CallOptions patient;
        patient.timeout = 20s;
        session.world().barrier(patient).wait();
      },
      options);
}

TEST_P(Leaving, RankThatLeftIsNamed) {
  run(3, [](Session& session) {
    if (session.rank() == 2) return;
    std::vector<float> data(100000, 1.0f);
    const Status status = session.world().all_reduce({data.data(), data.size()}).wait_for(10s);
    EXPECT_EQ(status.code(), Code::kPeerLost) << status.to_string();
    EXPECT_EQ(status.peer(), 2) << status.to_string();
    EXPECT_NE(status.to_string().find("left"), std::string::npos) << status.to_string();
    float x = 0;
    const Status next = session.world().all_reduce({&x, 1}).wait_for(10s);
    EXPECT_EQ(next.code(), Code::kFailedPrecondition) << next.to_string();
  });
}

TEST_P(Leaving, LastMessagesArrive) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{1} << 20}) {
    run(3, [count](Session& session) {
      std::vector<std::int32_t> data(count, session.rank() == 0 ? 42 : 0);
      session.world().broadcast({data.data(), count}, 0).wait();
      EXPECT_EQ(data[count - 1], 42);
    });
  }
}

TEST_P(Leaving, AnyOrderOfTeardown) {
  for (int first = 0; first < 3; ++first) {
    run(3, [first](Session& session) {
      Communicator pair = session.world().split(session.rank() == first ? -1 : 0);
      EXPECT_TRUE(works(session.world()));
      // The first one leaves while the others still work with each other.
      if (session.rank() == first) return;
      for (int i = 0; i < 200; ++i) EXPECT_TRUE(works(pair, 100));
    });
  }
}

TEST(LeavingThreads, WorksAndCommunicatorsOutliveTheSession) {
  std::vector<Session> sessions = init_threads(2, harness::test_options());
  Communicator world = sessions[0].world();
  float x = 1;
  std::atomic<int> calls{0};
  Work work = world.all_reduce({&x, 1});
  work.on_complete([&](const Status& status) {
    EXPECT_EQ(status.code(), Code::kShutdown);
    ++calls;
  });
  sessions.clear();
  EXPECT_TRUE(work.done());
  EXPECT_EQ(work.status().code(), Code::kShutdown) << work.status().to_string();
  EXPECT_EQ(calls.load(), 1);
  EXPECT_FALSE(world.status().ok());
  const Status after = world.all_reduce({&x, 1}).wait_for(5s);
  EXPECT_EQ(after.code(), Code::kShutdown) << after.to_string();
  EXPECT_EQ(code_of([&] { world.split(0); }), Code::kShutdown);
}

// Messages are refused by name although the peers are gone; stores, too, may go last.
TEST(LeavingThreads, MessagesAndStoresOutliveTheSession) {
  std::vector<Session> sessions = init_threads(1);
  KVStore store = sessions[0].kvstore();
  std::vector<Session> pair = init_threads(2);
  Communicator world = pair[0].world();
  pair.clear();
  sessions.clear();
  float x = 1;
  const Status sent = world.send({&x, 1}, 1).wait_for(20s);
  EXPECT_EQ(sent.code(), Code::kShutdown) << sent.to_string();
  EXPECT_NE(sent.to_string().find("send to rank 1"), std::string::npos) << sent.to_string();
  EXPECT_EQ(world.recv({&x, 1}, 1).wait_for(20s).code(), Code::kShutdown);
  EXPECT_THROW(store.finish(), Error);
}

TEST(LeavingThreads, Hang06WorldOfOne) {
  for (int i = 0; i < 20; ++i) {
    std::vector<Session> sessions = init_threads(1, harness::test_options());
    EXPECT_TRUE(works(sessions[0].world()));
    sessions[0].world().barrier().wait();
  }
}

TEST(LeavingThreads, ManyJobsInOneProcess) {
  for (int i = 0; i < 20; ++i) {
    harness::run_ranks(3, [](Session& session) { EXPECT_TRUE(works(session.world(), 1000)); });
  }
}

}  // namespace
}  // namespace syncline::conformance
