// send and recv: MPI's matching rules, bounds, deadlines, and collectives that they must not
// disturb.
#include <numeric>
#include <vector>

#include "tests/conformance/each_wiring.h"
#include "tests/harness/workspace.h"

namespace syncline::conformance {
namespace {

using harness::Bytes;
using harness::Guarded;
using namespace std::chrono_literals;

class Messages : public EachWiring {};
SYNCLINE_ON_EACH_WIRING(Messages);

constexpr std::size_t kEagerLimit = 32 << 10;  // bytes; include/syncline/communicator.h

CallOptions within(std::chrono::milliseconds timeout) {
  CallOptions options;
  options.timeout = timeout;
  return options;
}

void expect_info(const ReceiveWork& work, int source, int tag, std::size_t count) {
  EXPECT_EQ(work.message().source, source);
  EXPECT_EQ(work.message().tag, tag);
  EXPECT_EQ(work.message().count, count);
}

// Every rank sends to the next and receives from the one before.
void pass_on(Communicator& world, DType type, std::size_t count) {
  const int n = world.size();
  const int from = (world.rank() + n - 1) % n;
  const Bytes expected = harness::contribution(type, ReduceOp::kSum, from);
  Guarded in, out;
  in.reset(harness::contribution(type, ReduceOp::kSum, world.rank()), type, 0, count, 1);
  out.reset(type, count, count % 3);
  Work send = world.send(in.view(), (world.rank() + 1) % n, 5);
  ReceiveWork receive = world.recv(out.view(), from, 5);
  receive.wait();
  send.wait();
  expect_info(receive, from, 5, count);
  EXPECT_TRUE(out.equals(expected)) << to_string(type) << " " << count << " over " << n;
  EXPECT_TRUE(out.fences_intact() && in.fences_intact());
}

TEST_P(Messages, EverySizeAndType) {
  for (const int ranks : {1, 2, 3, 4, 5, 8}) {
    run(ranks, [ranks](Session& session) {
      for (int t = 0; t < kDTypeCount; ++t) {
        const auto type = static_cast<DType>(t);
        const std::size_t eager = kEagerLimit / size_of(type);
        const std::size_t segment = (128 << 10) / size_of(type);
        for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{7}, eager - 1,
                                        eager, eager + 1, segment - 1, segment, segment + 1}) {
          pass_on(session.world(), type, count);
        }
        if (ranks <= 3) pass_on(session.world(), type, 1 << 20);
      }
    });
  }
}

// Small and large messages with one tag; the small ones must not overtake.
TEST_P(Messages, DoNotOvertake) {
  run(2, [](Session& session) {
    constexpr int kMessages = 300;
    const auto length = [](int i) { return i % 5 == 0 ? std::size_t{20000} : std::size_t{3}; };
    std::vector<std::vector<std::int32_t>> data;
    std::vector<Work> works;
    for (int i = 0; i < kMessages; ++i) {
      data.emplace_back(length(i), session.rank() == 0 ? i : -1);
      TensorView view(data.back().data(), data.back().size());
      if (session.rank() == 0) works.push_back(session.world().send(view, 1, i % 2));
    }
    // All of tag 1 first, by any tag and source within it.
    for (int i = 1; i < kMessages && session.rank() == 1; i += 2) {
      TensorView view(data[static_cast<std::size_t>(i)].data(), length(i));
      session.world().recv(view, kAnySource, 1).wait();
      EXPECT_EQ(data[static_cast<std::size_t>(i)].back(), i);
    }
    for (int i = 0; i < kMessages && session.rank() == 1; i += 2) {
      TensorView view(data[static_cast<std::size_t>(i)].data(), length(i));
      ReceiveWork work = session.world().recv(view, 0, kAnyTag);
      work.wait();
      expect_info(work, 0, 0, length(i));
      EXPECT_EQ(data[static_cast<std::size_t>(i)].back(), i);
    }
    for (Work& work : works) work.wait();
  });
}

TEST_P(Messages, AnySourceTellsWho) {
  run(4, [](Session& session) {
    Communicator& world = session.world();
    for (const std::size_t count : {std::size_t{3}, std::size_t{50000}}) {
      std::vector<std::int32_t> data(count, world.rank());
      world.barrier().wait();  // else a fast rank's second message is taken for its first
      if (world.rank() != 0) {
        world.send({data.data(), count}, 0, 10 + world.rank()).wait();
        continue;
      }
      std::vector<int> seen;
      for (int i = 1; i < 4; ++i) {
        ReceiveWork work = world.recv({data.data(), count}, kAnySource);
        work.wait();
        expect_info(work, data[0], 10 + data[0], count);
        EXPECT_EQ(data.back(), data[0]);
        seen.push_back(data[0]);
      }
      std::sort(seen.begin(), seen.end());
      EXPECT_EQ(seen, (std::vector<int>{1, 2, 3}));
    }
  });
}

TEST_P(Messages, OldestPostedReceiveGetsIt) {
  run(2, [](Session& session) {
    Communicator& world = session.world();
    std::int32_t a = 0, b = 0, c = 0;
    if (world.rank() == 1) {
      ReceiveWork any = world.recv({&a, 1}, kAnySource);
      ReceiveWork two = world.recv({&b, 1}, 0, 2);
      ReceiveWork rest = world.recv({&c, 1}, 0);
      world.barrier().wait();
      any.wait();
      two.wait();
      rest.wait();
      EXPECT_EQ(std::vector<int>({a, b, c}), std::vector<int>({11, 12, 13}));
    } else {
      world.barrier().wait();
      for (std::int32_t i : {11, 12, 13}) world.send({&i, 1}, 1, i == 12 ? 2 : 7).wait();
    }
  });
}

TEST_P(Messages, ShorterIsFineLongerIsNot) {
  run(2, [](Session& session) {
    Communicator& world = session.world();
    const std::size_t large = 100000;
    std::vector<float> in(large, 1.0f);
    const auto expect_both = [](const Status& status) {
      EXPECT_EQ(status.code(), Code::kMismatch) << status.to_string();
      const std::string text = status.to_string();
      EXPECT_NE(text.find("rank 0 sent"), std::string::npos) << text;
      EXPECT_NE(text.find("rank 1 has room for"), std::string::npos) << text;
    };
    for (const std::size_t count : {std::size_t{8}, large}) {
      if (world.rank() == 0) {
        world.send({in.data(), count}, 1, 1).wait();
        Status status = world.send({in.data(), count}, 1, 2).wait_for(10s);
        if (count == large) expect_both(status);
        status = world.send({in.data(), count}, 1, 3).wait_for(10s);
        if (count == large) expect_both(status);
      } else {
        Guarded out;
        out.reset(DType::kF32, count + 5, 1);
        ReceiveWork longer = world.recv(out.view(), 0, 1);
        longer.wait();
        expect_info(longer, 0, 1, count);
        const Bytes ones = harness::element(DType::kF32, 1);
        EXPECT_EQ(out.first_difference(ones, 0, 0, count), count);
        EXPECT_EQ(out.first_difference(Guarded::garbage_period(), count, count, 5), 5u);
        out.reset(DType::kF32, count - 1, 1);
        expect_both(world.recv(out.view(), 0, 2).wait_for(10s));
        out.reset(DType::kI32, count, 1);
        expect_both(world.recv(out.view(), 0, 3).wait_for(10s));
        EXPECT_TRUE(out.untouched() && out.fences_intact());
      }
      EXPECT_TRUE(works(world)) << "the group lives on";
    }
  });
}

// Ten megabytes that nobody asks for: the sender is held back, the receiver keeps 256 KiB.
TEST_P(Messages, SendersWaitForReceives) {
  run(2, [](Session& session) {
    Communicator& world = session.world();
    constexpr std::size_t kMessages = 10000;
    std::vector<std::int64_t> data(128);
    if (world.rank() == 0) {
      std::vector<Work> works;
      for (std::size_t i = 0; i < kMessages; ++i)
        works.push_back(world.send({data.data(), 128}, 1));
      std::vector<double> much(1 << 20, 2.0);
      Work large = world.send({much.data(), much.size()}, 1, 9);
      EXPECT_EQ(works.back().wait_for(100ms).code(), Code::kTimeout);
      const auto done = std::count_if(works.begin(), works.end(), [](Work& w) { return w.done(); });
      EXPECT_GT(done, 100);
      EXPECT_LE(done * 1024, 256 << 10);
      EXPECT_FALSE(large.done());
      world.barrier().wait();
      for (Work& work : works) work.wait();
      large.wait();
    } else {
      world.barrier().wait();
      std::vector<double> much(1 << 20);
      world.recv({much.data(), much.size()}, 0, 9).wait();  // behind the others
      EXPECT_EQ(much.back(), 2.0);
      for (std::size_t i = 0; i < kMessages; ++i) world.recv({data.data(), 128}, 0, 0).wait();
    }
  });
}

TEST_P(Messages, ToTheOwnRank) {
  run(2, [](Session& session) {
    Communicator& world = session.world();
    const int me = world.rank();
    for (const std::size_t count : {std::size_t{0}, std::size_t{5}, std::size_t{100000}}) {
      std::vector<std::int32_t> in(count, me + 1), out(count, 0);
      Work first = world.send({in.data(), count}, me, 3);
      const bool eager = count * 4 <= kEagerLimit;  // done as soon as the engine sees it
      EXPECT_EQ(eager ? first.wait_for(5s).ok() : first.done(), eager);
      ReceiveWork receive = world.recv({out.data(), count}, kAnySource, 3);
      receive.wait();
      first.wait();
      expect_info(receive, me, 3, count);
      EXPECT_EQ(out, in);
      out.assign(count, 0);
      ReceiveWork posted = world.recv({out.data(), count}, me);
      world.send({in.data(), count}, me).wait();
      posted.wait();
      EXPECT_EQ(out, in);
    }
    std::vector<float> x(100000);
    Work large = world.send({x.data(), x.size()}, me, 4);
    EXPECT_EQ(world.recv({x.data(), 1}, me, 4).wait_for(5s).code(), Code::kMismatch);
    EXPECT_EQ(large.wait_for(5s).code(), Code::kMismatch);
  });
}

TEST_P(Messages, DeadlinesNameTheRank) {
  run(2, [](Session& session) {
    Communicator& world = session.world();
    std::vector<float> x(100000, 3.0f);
    const auto expect_timeout = [](Work work, const std::string& shown) {
      const Status status = work.wait_for(20s);
      EXPECT_EQ(status.code(), Code::kTimeout) << status.to_string();
      EXPECT_NE(status.to_string().find(shown), std::string::npos) << status.to_string();
    };
    if (world.rank() == 0) {
      expect_timeout(world.recv({x.data(), 4}, 1, 8, within(150ms)), "recv from rank 1, tag 8");
      expect_timeout(world.recv({x.data(), 4}, kAnySource, 8, within(150ms)), "any rank");
      expect_timeout(world.send({x.data(), x.size()}, 1, 8, within(150ms)),
                     "rank 1 has posted no receive");
      expect_timeout(world.send({x.data(), x.size()}, 0, 8, within(150ms)), "rank 0 has posted");
    }
    EXPECT_TRUE(works(world)) << "the group lives on";
    // What was given up is not received; the message after it is.
    if (world.rank() == 0) {
      world.send({x.data(), 2}, 1, 8).wait();
    } else {
      ReceiveWork receive = world.recv({x.data(), x.size()}, 0, 8);
      receive.wait();
      expect_info(receive, 0, 8, 2);
    }
  });
}

TEST_P(Messages, CollectivesKeepTheirOrder) {
  run(3, [](Session& session) {
    Communicator& world = session.world();
    std::vector<std::int32_t> sum(70000, world.rank()), data(70000, 7), got(70000);
    for (int i = 0; i < 20; ++i) {
      sum.assign(sum.size(), world.rank());
      // Rank 0's part of the collective stands in the channel before its message.
      Work collective;
      if (world.rank() != 1) collective = world.all_reduce({sum.data(), sum.size()});
      Work send;
      if (world.rank() == 0) send = world.send({data.data(), i % 2 == 0 ? 3 : data.size()}, 1, i);
      if (world.rank() == 1) {
        world.recv({got.data(), got.size()}, 0, i).wait();
        EXPECT_EQ(got[2], 7);
        collective = world.all_reduce({sum.data(), sum.size()});
      }
      collective.wait();
      send.wait();
      EXPECT_EQ(sum[69999], 3);
    }
  });
}

TEST_P(Messages, MismatchIsStillSeen) {
  run(3, [](Session& session) {
    Communicator group = session.world().split(0);
    float x[8] = {};
    ReceiveWork pending;
    if (group.rank() == 2) pending = group.recv({x, 8}, 0, 1);
    Work work = group.rank() == 0 ? group.all_reduce({x, 4}) : group.all_reduce({x, 5});
    Status status = work.wait_for(10s);
    EXPECT_EQ(status.code(), Code::kMismatch) << status.to_string();
    EXPECT_NE(status.to_string().find("operation #1"), std::string::npos) << status.to_string();
    if (group.rank() == 2) {
      EXPECT_EQ(pending.wait_for(10s).code(), Code::kMismatch);
    }
    status = group.send({x, 1}, 0).wait_for(10s);
    EXPECT_EQ(status.code(), Code::kFailedPrecondition) << status.to_string();
    EXPECT_TRUE(works(session.world()));
  });
}

TEST_P(Messages, OfSeveralGroupsStayApart) {
  run(3, [](Session& session) {
    Communicator& world = session.world();
    Communicator turned = world.split(0, -world.rank());
    std::int32_t a = 0, b = 0, one = 1, two = 2;
    if (world.rank() == 0) {  // rank 2 of `turned`
      world.send({&one, 1}, 2, 4).wait();
      turned.send({&two, 1}, 0, 4).wait();
    } else if (world.rank() == 2) {
      ReceiveWork second = turned.recv({&b, 1}, kAnySource, 4);
      second.wait();
      expect_info(second, 2, 4, 1);
      world.recv({&a, 1}, 0).wait();
      EXPECT_EQ(a, 1);
      EXPECT_EQ(b, 2);
    }
    // A message may come before its communicator is made here.
    Communicator late = world.split(0);
    if (late.rank() == 0) late.send({&two, 1}, 1).wait();
    if (late.rank() == 1) late.recv({&b, 1}, 0).wait();
    EXPECT_TRUE(works(late));
  });
}

TEST_P(Messages, PeersThatLeaveEndThem) {
  run(3, [](Session& session) {
    Communicator& world = session.world();
    std::vector<float> x(100000), y(100000);
    if (world.rank() == 2) {
      world.send({x.data(), 3}, 0, 1).wait();
      return world.barrier().wait();  // and leaves
    }
    Work send = world.send({x.data(), x.size()}, 2);
    ReceiveWork from = world.recv({y.data(), 4}, 2, 9);
    world.barrier().wait();
    for (Work work : {send, Work(from)}) {
      const Status status = work.wait_for(10s);
      EXPECT_EQ(status.code(), Code::kPeerLost) << status.to_string();
      EXPECT_EQ(status.peer(), 2);
    }
    if (world.rank() == 0) world.recv({y.data(), 3}, 2, 1).wait();  // was sent before
    EXPECT_EQ(world.recv({y.data(), 3}, 2, 1).wait_for(10s).code(), Code::kPeerLost);
    // The others go on.
    if (world.rank() == 0) world.send({x.data(), x.size()}, 1).wait();
    if (world.rank() == 1) world.recv({y.data(), y.size()}, kAnySource).wait();
  });
}

TEST_P(Messages, BadArgumentsAreRefused) {
  run(2, [](Session& session) {
    float m[4] = {};
    using BadMessage = std::function<void(Communicator&)>;
    const std::pair<const char*, BadMessage> calls[] = {
        {"destination",
         [&](auto& w) {
           w.send({m, 4}, 2);
         }},
        {"any destination",
         [&](auto& w) {
           w.send({m, 4}, kAnySource);
         }},
        {"source",
         [&](auto& w) {
           w.recv({m, 4}, -2);
         }},
        {"any tag",
         [&](auto& w) {
           w.send({m, 4}, 1, kAnyTag);
         }},
        {"tag",
         [&](auto& w) {
           w.recv({m, 4}, 1, -5);
         }},
        {"null",
         [&](auto& w) {
           w.send({static_cast<float*>(nullptr), 4}, 1);
         }},
        {"schedule",
         [&](auto& w) {
           w.send({m, 4}, 1, 0, harness::with_schedule("ring"));
         }},
    };
    for (const auto& [what, call] : calls) {
      EXPECT_EQ(code_of([&, &bad = call] { bad(session.world()); }), Code::kInvalidArgument)
          << what;
    }
    EXPECT_EQ(code_of([&] {
                session.world().recv({m, 1, DType::kF32, {DeviceKind::kCuda, 0}}, 1);
              }),
              Code::kUnsupported);
    EXPECT_TRUE(works(session.world()));
  });
}

}  // namespace
}  // namespace syncline::conformance
