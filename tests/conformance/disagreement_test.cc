// Ranks that call different things: HANG-01, HANG-02.
#include <vector>

#include "tests/conformance/each_wiring.h"
#include "tests/harness/workspace.h"

namespace syncline::conformance {
namespace {

using harness::Guarded;
using namespace std::chrono_literals;

// Generous, since the machine may be busy; the requirement is one second.
constexpr auto kSoon = 3s;

class Disagreement : public EachWiring {};
SYNCLINE_ON_EACH_WIRING(Disagreement);

using Call = std::function<Work(Communicator&, Guarded& in, Guarded& out)>;

struct Difference {
  const char* what;
  Call odd;                        // of one rank
  Call usual;                      // of the others
  std::vector<std::string> shown;  // the message has them all
  bool keeps_own_block = false;    // a call that begins with a copy to its own output
};

CallOptions named(const std::string& name, const std::string& schedule = "") {
  CallOptions options;
  options.name = name;
  options.schedule = schedule;
  return options;
}

CallOptions reproducible() {
  CallOptions options;
  options.reproducible = true;
  return options;
}

Call reduction(std::size_t count, DType type = DType::kF32, ReduceOp op = ReduceOp::kSum,
               const CallOptions& options = {}) {
  return [=](Communicator& world, Guarded& in, Guarded& out) {
    return world.all_reduce({in.data(), count, type}, {out.data(), count, type}, op, options);
  };
}

Call broadcast(std::size_t count, int root) {
  return [=](Communicator& world, Guarded&, Guarded& out) {
    return world.broadcast({out.data(), count, DType::kF32}, root);
  };
}

Call reduce(std::size_t count, int root) {
  return [=](Communicator& world, Guarded& in, Guarded& out) {
    return world.reduce({in.data(), count, DType::kF32}, {out.data(), count, DType::kF32}, root);
  };
}

// `count`: elements that each rank gives to each other one.
Call gather(std::size_t count) {
  return [=](Communicator& world, Guarded& in, Guarded& out) {
    const auto n = static_cast<std::size_t>(world.size());
    return world.all_gather({in.data(), count, DType::kF32}, {out.data(), n * count, DType::kF32});
  };
}

Call scatter(std::size_t count) {
  return [=](Communicator& world, Guarded& in, Guarded& out) {
    const auto n = static_cast<std::size_t>(world.size());
    return world.reduce_scatter({in.data(), n * count, DType::kF32},
                                {out.data(), count, DType::kF32});
  };
}

std::vector<Difference> differences() {
  return {
      {"kind", reduction(8), broadcast(8, 1), {"all_reduce", "broadcast"}},
      {"kind, barrier",
       [](Communicator& world, Guarded&, Guarded&) { return world.barrier(); },
       reduction(8),
       {"barrier", "all_reduce"}},
      {"type", reduction(100, DType::kI32), reduction(100), {"i32", "f32"}},
      {"count", reduction(100), reduction(200), {"100", "200"}},
      {"count by one, large", reduction(300001), reduction(300000), {"300001", "300000"}},
      {"operation", reduction(9), reduction(9, DType::kF32, ReduceOp::kMax), {"sum", "max"}},
      {"root", broadcast(50, 0), broadcast(50, 1), {"root 0", "root 1"}},
      {"name",
       reduction(7, DType::kF32, ReduceOp::kSum, named("a")),
       reduction(7, DType::kF32, ReduceOp::kSum, named("b")),
       {}},
      {"name, of one rank only",
       reduction(7, DType::kF32, ReduceOp::kSum, named("a")),
       reduction(7),
       {}},
      {"kind, of equal bytes", gather(64), scatter(64), {"all_gather", "reduce_scatter"}, true},
      {"kind, both with a root", broadcast(40, 1), reduce(40, 1), {"broadcast", "reduce"}},
      {"root of a reduction", reduce(50, 0), reduce(50, 1), {"root 0", "root 1"}},
      {"type of equal width",
       reduction(64, DType::kBF16),
       reduction(64, DType::kF16),
       {"bf16", "f16"}},
      {"sum or average",
       reduction(9, DType::kF32, ReduceOp::kAverage),
       reduction(9),
       {"average", "sum"}},
      {"nothing or something", reduction(0), reduction(16), {"0", "16"}},
      {"schedule",
       reduction(7, DType::kF32, ReduceOp::kSum, named("", "ring")),
       reduction(7, DType::kF32, ReduceOp::kSum, named("", "one_shot")),
       {}},
      {"reproducible",
       reduction(7, DType::kF32, ReduceOp::kSum, reproducible()),
       reduction(7),
       {"sum, reproducible)"}},
      {"reproducible, and so the schedule",
       reduction(90000, DType::kF32, ReduceOp::kSum, named("", "ring")),
       reduction(90000, DType::kF32, ReduceOp::kSum, reproducible()),
       {"sum, reproducible)"}},
  };
}

// The failure of the call, or of the next one when this rank only had to send.
Status outcome(Communicator& world, Work work) {
  const Status first = work.wait_for(kSoon);
  if (!first.ok()) return first;
  return world.barrier().wait_for(kSoon);
}

// The first call that learns of the difference gets kMismatch, later ones kFailedPrecondition
// caused by it; a rank that had only to send may learn it between two calls.
bool is_mismatch(const Status& status) {
  if (status.code() == Code::kMismatch) return true;
  return status.code() == Code::kFailedPrecondition && status.cause() != nullptr &&
         status.cause()->code() == Code::kMismatch;
}

void expect_failure(const Status& status, const Difference& difference, int odd, int self) {
  const std::string text = status.to_string();
  EXPECT_TRUE(is_mismatch(status))
      << difference.what << ", rank " << self << ", odd " << odd << ": " << text;
  EXPECT_NE(text.find("rank " + std::to_string(odd)), std::string::npos) << text;
  for (const std::string& shown : difference.shown) {
    EXPECT_NE(text.find(shown), std::string::npos)
        << difference.what << ": '" << shown << "' is not in: " << text;
  }
}

void expect_dead(Communicator& world) {
  EXPECT_FALSE(world.status().ok());
  float x = 0;
  const Status next = world.all_reduce({&x, 1}).wait_for(kSoon);
  EXPECT_TRUE(is_mismatch(next)) << next.to_string();
  const Status later = world.all_reduce({&x, 1}).wait_for(kSoon);
  EXPECT_EQ(later.code(), Code::kFailedPrecondition) << later.to_string();
}

// `agreed`: calls before in which all ranks do the usual; what the engine keeps of them must not
// pass for the one that differs.
void disagree(Session& session, const Difference& difference, int odd, int agreed = 0) {
  Communicator group = session.world().split(0);
  const harness::Bytes ones = harness::element(DType::kF32, 1);
  Guarded in, out;
  in.reset(ones, DType::kF32, 0, 400000, 0);
  for (int i = 0; i < agreed; ++i) {
    out.reset(DType::kF32, 400000, 0);
    difference.usual(group, in, out).wait();
  }
  out.reset(DType::kF32, 400000, 0);
  const Call& call = group.rank() == odd ? difference.odd : difference.usual;
  expect_failure(outcome(group, call(group, in, out)), difference, odd, group.rank());
  expect_dead(group);
  EXPECT_TRUE(in.equals(ones)) << difference.what << ": an input was changed";
  EXPECT_TRUE(in.fences_intact() && out.fences_intact()) << difference.what;
  if (group.size() == 2 && !difference.keeps_own_block) {
    EXPECT_TRUE(out.untouched()) << difference.what << ": an output was written";
  }
  EXPECT_TRUE(works(session.world())) << "other groups live on after " << difference.what;
}

TEST_P(Disagreement, TwoRanks) {
  run(2, [](Session& session) {
    for (const Difference& difference : differences()) disagree(session, difference, 0);
    for (const Difference& difference : differences()) disagree(session, difference, 1);
  });
}

TEST_P(Disagreement, AfterCallsInAgreement) {
  run(2, [](Session& session) {
    for (const Difference& difference : differences()) disagree(session, difference, 0, 2);
    for (const Difference& difference : differences()) disagree(session, difference, 1, 2);
  });
}

TEST_P(Disagreement, FourRanks) {
  run(4, [](Session& session) {
    for (const Difference& difference : differences()) disagree(session, difference, 0);
    for (const Difference& difference : differences()) disagree(session, difference, 2);
  });
}

TEST_P(Disagreement, Hang01CrossedOrder) {
  run(2, [](Session& session) {
    Communicator& world = session.world();
    std::vector<float> four(4, 1.0f), eight(8, 2.0f);
    Work first, second;
    if (session.rank() == 0) {
      first = world.all_reduce({four.data(), 4});
      second = world.broadcast({eight.data(), 8}, 0);
    } else {
      first = world.broadcast({eight.data(), 8}, 0);
      second = world.all_reduce({four.data(), 4});
    }
    const Status status = first.wait_for(kSoon);
    EXPECT_EQ(status.code(), Code::kMismatch) << status.to_string();
    for (const char* shown : {"all_reduce", "broadcast", "f32", "4", "8", "#1"}) {
      EXPECT_NE(status.to_string().find(shown), std::string::npos) << status.to_string();
    }
    // A broadcast's root only sends: it may have ended before the difference was seen.
    EXPECT_NE(second.wait_for(kSoon).code(), Code::kTimeout);
    EXPECT_EQ(four, std::vector<float>(4, 1.0f));
    EXPECT_EQ(eight, std::vector<float>(8, 2.0f));
  });
}

TEST_P(Disagreement, Hang01CrossedGroups) {
  SessionOptions options = harness::test_options();
  options.timeout = 1s;
  run(
      2,
      [](Session& session) {
        Communicator a = session.world().split(0), b = session.world().split(0);
        std::vector<float> x(4, 1.0f), y(4, 1.0f);
        // Blocking on one group while the peer blocks on the other ends at the deadline.
        Communicator& mine = session.rank() == 0 ? a : b;
        const Status status = mine.all_reduce({x.data(), 4}).wait_for(10s);
        EXPECT_EQ(status.code(), Code::kTimeout) << status.to_string();
        const std::string peer = "rank " + std::to_string(1 - session.rank());
        EXPECT_NE(status.to_string().find(peer), std::string::npos) << status.to_string();
      },
      options);
}

TEST_P(Disagreement, Hang02UnequalSizesBySchedule) {
  run(4, [](Session& session) {
    for (const auto& name : {"ring", "one_shot", "two_shot", "tree", "halving_doubling",
                             "ring_bidirectional", "ring_meet", "double_tree", "star"}) {
      const Difference counts{"count",
                              reduction(100, DType::kF32, ReduceOp::kSum, named("", name)),
                              reduction(200, DType::kF32, ReduceOp::kSum, named("", name)),
                              {"100", "200"}};
      disagree(session, counts, 0);
      const Difference types{"type",
                             reduction(100, DType::kI32, ReduceOp::kSum, named("", name)),
                             reduction(100, DType::kF32, ReduceOp::kSum, named("", name)),
                             {"i32", "f32"}};
      disagree(session, types, 0);
    }
  });
}

}  // namespace
}  // namespace syncline::conformance
