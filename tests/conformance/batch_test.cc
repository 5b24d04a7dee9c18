// Batch: sends, receives and collectives that start as one.
#include "syncline/batch.h"

#include <numeric>
#include <vector>

#include "tests/conformance/each_wiring.h"

namespace syncline::conformance {
namespace {

using namespace std::chrono_literals;

class Batches : public EachWiring {};
SYNCLINE_ON_EACH_WIRING(Batches);

// The README of Batch: what the next rank sends to the previous one, small and large.
TEST_P(Batches, RingExchange) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    run(ranks, [](Session& session) {
      Communicator& world = session.world();
      const int n = world.size();
      const int next = (world.rank() + 1) % n, previous = (world.rank() + n - 1) % n;
      for (const std::size_t count : {std::size_t{0}, std::size_t{10}, std::size_t{300000}}) {
        std::vector<std::int32_t> mine(count, world.rank()), theirs(count, -1);
        Batch batch;
        Communicator ring = batch.on(world);
        ring.send({mine.data(), count}, next);
        ReceiveWork receive = ring.recv({theirs.data(), count}, previous);
        EXPECT_FALSE(receive.done());
        batch.start().wait();
        EXPECT_TRUE(receive.done());
        EXPECT_EQ(receive.message().source, previous);
        EXPECT_EQ(theirs, std::vector<std::int32_t>(count, previous));
      }
    });
  }
}

// Every rank with every other, in an order of its own, with collectives between.
TEST_P(Batches, AnyOrderOfSendsAndReceives) {
  run(4, [](Session& session) {
    Communicator& world = session.world();
    Communicator half = world.split(world.rank() % 2);
    constexpr std::size_t kEach = 50000;
    for (int turn = 0; turn < 12; ++turn) {
      std::vector<std::int32_t> in(4 * kEach, world.rank()), out(4 * kEach, -1);
      std::vector<std::int32_t> sum(1000, 1), part(1000, 1);
      std::vector<int> order(8);  // 0..3: send to, 4..7: receive from
      std::iota(order.begin(), order.end(), 0);
      std::rotate(order.begin(), order.begin() + (turn + 3 * world.rank()) % 8, order.end());
      if (turn % 2 == 1) std::reverse(order.begin(), order.end());
      Batch batch;
      Communicator all = batch.on(world), pair = batch.on(half);
      if (turn % 3 == 0) pair.all_reduce({part.data(), part.size()});
      for (const int what : order) {
        const std::size_t at = static_cast<std::size_t>(what % 4) * kEach;
        if (what == 5) all.all_reduce({sum.data(), sum.size()});
        if (what < 4) all.send({in.data() + at, kEach}, what, turn);
        if (what >= 4) all.recv({out.data() + at, kEach}, what - 4, turn);
      }
      if (turn % 3 != 0) pair.all_reduce({part.data(), part.size()});
      batch.start().wait();
      EXPECT_EQ(sum[999], 4);
      EXPECT_EQ(part[999], 2);
      for (std::size_t i = 0; i < out.size(); i += kEach / 2) {
        EXPECT_EQ(out[i], static_cast<std::int32_t>(i / kEach));
      }
    }
  });
}

TEST_P(Batches, BadCallsStartNothing) {
  run(2, [](Session& session) {
    Communicator& world = session.world();
    float x[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    Work dropped;
    if (world.rank() == 0) {
      Batch batch;
      Communicator part = batch.on(world);
      part.send({x, 4}, 1);
      dropped = part.all_reduce({x, 4});
      EXPECT_EQ(code_of([&] { part.send({x, 4}, 2); }), Code::kInvalidArgument);
      EXPECT_EQ(code_of([&] { part.all_to_all({x, 4}, {x, 4}); }), Code::kInvalidArgument);
      EXPECT_EQ(code_of([&] { part.split(0); }), Code::kFailedPrecondition);
      EXPECT_EQ(code_of([&] { dropped.wait(); }), Code::kFailedPrecondition);
      EXPECT_EQ(dropped.wait_for(1ms).code(), Code::kFailedPrecondition);
    }
    if (world.rank() == 0) {
      EXPECT_EQ(dropped.wait_for(1ms).code(), Code::kCancelled);
    }
    EXPECT_TRUE(works(world)) << "nothing was sent or counted";
    CallOptions soon;
    soon.timeout = 100ms;
    const Status status = world.recv({x, 4}, 1 - world.rank(), kAnyTag, soon).wait_for(20s);
    EXPECT_EQ(status.code(), Code::kTimeout) << status.to_string();
    world.barrier().wait();  // neither leaves while the other waits
  });
}

TEST_P(Batches, FirstFailureEndsTheWhole) {
  run(2, [](Session& session) {
    Communicator& world = session.world();
    float x[8] = {}, y[8] = {}, z[8] = {};
    Batch batch;
    EXPECT_TRUE(batch.start().done()) << "an empty one has ended";
    Communicator part = batch.on(world);
    CallOptions weighted;
    weighted.weight = 1 + world.rank();
    z[0] = static_cast<float>(world.rank());
    part.send({x, 8}, 1 - world.rank());
    ReceiveWork small = part.recv({y, 3}, 1 - world.rank());
    Work mean = part.all_reduce({z, 8}, ReduceOp::kAverage, weighted);
    EXPECT_EQ(code_of([&] { mean.wait(); }), Code::kFailedPrecondition);
    const Status status = batch.start().wait_for(20s);
    EXPECT_EQ(status.code(), Code::kMismatch) << status.to_string();
    EXPECT_TRUE(small.done() && mean.done());
    EXPECT_TRUE(mean.status().ok());
    EXPECT_EQ(z[0], 2.0f / 3);
    // The same batch again.
    part.send({x, 8}, 1 - world.rank());
    part.recv({y, 8}, 1 - world.rank());
    EXPECT_TRUE(batch.start().wait_for(20s).ok());
  });
}

TEST(BatchesThreads, OneSessionEach) {
  auto sessions = init_threads(2, harness::test_options());
  Batch batch;
  batch.on(sessions[0].world());
  EXPECT_EQ(code_of([&] { batch.on(sessions[1].world()); }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([&] { batch.on(Communicator()); }), Code::kFailedPrecondition);
}

}  // namespace
}  // namespace syncline::conformance
