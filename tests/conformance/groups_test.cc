// Groups of groups: several levels, crossed orders between communicators, and that a thousand of
// them leave nothing behind. The program of examples/collectives runs here too.
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

#include "syncline/batch.h"
#include "tests/conformance/each_wiring.h"

#define main collectives_example_main
#include "examples/collectives/main.cc"
#undef main

namespace syncline::conformance {
namespace {

class Groups : public EachWiring {};
SYNCLINE_ON_EACH_WIRING(Groups);

TEST_P(Groups, ExampleProgram) {
  for (const int ranks : {1, 2, 4, 5}) {
    run(ranks, [](Session& session) { EXPECT_EQ(show(session.world()), 0); });
  }
}

// Halves of halves of halves; every level works, whichever are in flight together. Each rank starts
// the operations of different communicators in an order of its own.
TEST_P(Groups, LevelsInCrossedOrders) {
  run(8, [](Session& session) {
    std::vector<Communicator> levels{session.world()};
    for (int level = 0; level < 3; ++level) {
      Communicator& parent = levels.back();
      levels.push_back(parent.split(parent.rank() % 2, level % 2 == 0 ? 0 : -parent.rank()));
    }
    ASSERT_EQ(levels.back().size(), 1);
    for (int turn = 0; turn < 24; ++turn) {
      std::vector<std::size_t> order{0, 1, 2, 3};
      for (int i = 0; i < (turn + session.rank()) % 24; ++i) {
        std::next_permutation(order.begin(), order.end());
      }
      std::vector<std::vector<std::int32_t>> sums(4), blocks(4);
      std::vector<Work> works;
      for (const std::size_t level : order) {
        Communicator& group = levels[level];
        const std::size_t count = turn % 2 == 0 ? 100 : 60000;
        const auto n = static_cast<std::size_t>(group.size());
        sums[level].assign(count, 1);
        blocks[level].assign(2 * n, group.rank());
        works.push_back(group.all_reduce({sums[level].data(), count}));
        works.push_back(group.all_to_all({blocks[level].data(), n}, {blocks[level].data() + n, n}));
      }
      if (turn % 3 == 0) std::reverse(works.begin(), works.end());
      for (Work& work : works) work.wait();
      for (std::size_t level = 0; level < 4; ++level) {
        EXPECT_EQ(sums[level].back(), levels[level].size());
        EXPECT_EQ(blocks[level].back(), levels[level].size() - 1);
      }
    }
  });
}

// Of two threads of a rank one waits in split() for the other rank, the other one is told so.
TEST(GroupsThreads, OneSplitAtATime) {
  auto sessions = init_threads(2, harness::test_options());
  std::atomic<int> refused{0}, made{0};
  const auto split = [&] {
    const Code code = code_of([&] { made += sessions[0].world().split(0).valid() ? 1 : 0; });
    refused += code == Code::kFailedPrecondition ? 1 : 0;
  };
  std::thread first(split), second(split);
  while (refused == 0) std::this_thread::yield();
  EXPECT_TRUE(sessions[1].world().split(0).valid());
  first.join();
  second.join();
  EXPECT_EQ(refused, 1);
  EXPECT_EQ(made, 1);
}

struct Resources {
  std::size_t descriptors = 0, threads = 0, heap_bytes = 0;

  // Ranks as threads share them: each looks while the others stand still.
  static Resources seen_by(Communicator& world) {
    Resources seen;
    for (int r = 0; r < world.size(); ++r) {
      if (r == world.rank()) seen = now();
      world.barrier().wait();
    }
    return seen;
  }
  static Resources now() {
    const auto entries = [](const char* folder) {
      const std::filesystem::directory_iterator all(folder);
      return static_cast<std::size_t>(std::distance(begin(all), end(all)));
    };
    return {entries("/proc/self/fd"), entries("/proc/self/task"), ::mallinfo2().uordblks};
  }
};

void make_and_drop(Communicator& world, int count) {
  for (int i = 0; i < count; ++i) {
    Communicator group =
        world.split(i % 5 == 4 ? world.rank() % 2 : 0, i % 2 == 0 ? 0 : -world.rank());
    EXPECT_TRUE(works(group));
    if (i % 10 == 0) {  // a child, and messages that nobody receives
      Communicator child = group.split(0);
      std::vector<std::int32_t> x(100, i), y(100);
      child.send({x.data(), x.size()}, (child.rank() + 1) % child.size()).wait();  // eager
      if (i % 20 == 0) child.recv({y.data(), y.size()}, kAnySource).wait();
    }
  }
}

TEST_P(Groups, AThousandLeaveNothingBehind) {
  run(3, [](Session& session) {
    Communicator& world = session.world();
    make_and_drop(world, 100);
    world.barrier().wait();
    const Resources before = Resources::seen_by(world);
    make_and_drop(world, 1000);
    world.barrier().wait();
    const Resources after = Resources::seen_by(world);
    EXPECT_EQ(after.descriptors, before.descriptors);
    EXPECT_EQ(after.threads, before.threads);
    // One forgotten communicator of a rank is 9 KiB and more; ranks as threads share a heap.
    EXPECT_LE(after.heap_bytes, before.heap_bytes + (256 << 10));
    ::testing::Test::RecordProperty("heap_growth_bytes", static_cast<int>(after.heap_bytes) -
                                                             static_cast<int>(before.heap_bytes));
  });
}

}  // namespace
}  // namespace syncline::conformance
