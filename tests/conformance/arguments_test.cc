// Bad arguments: refused on the calling rank before anything is sent, and nothing is lost.
#include <vector>

#include "tests/conformance/each_wiring.h"

namespace syncline::conformance {
namespace {

class Arguments : public EachWiring {};
SYNCLINE_ON_EACH_WIRING(Arguments);

struct BadCall {
  const char* what;
  Code code;
  std::function<void(Communicator&)> call;
};

float* memory() {
  static float floats[64];
  return floats;
}

std::vector<BadCall> bad_shapes() {
  const Code bad = Code::kInvalidArgument;
  float* m = memory();
  return {
      {"counts differ", bad,
       [=](auto& w) {
         w.all_reduce({m, 4}, {m + 8, 5});
       }},
      {"types differ", bad,
       [=](auto& w) {
         w.all_reduce({m, 4, DType::kF32}, {m + 8, 4, DType::kI32});
       }},
      {"partial overlap", bad,
       [=](auto& w) {
         w.all_reduce({m, 4}, {m + 2, 4});
       }},
      {"partial overlap of reduce", bad,
       [=](auto& w) {
         w.reduce({m + 1, 4}, {m, 4}, 0);
       }},
      {"blocks of reduce_scatter", bad,
       [=](auto& w) {
         w.reduce_scatter({m, 5}, {m + 8, 2});
       }},
      {"blocks of all_gather", bad,
       [=](auto& w) {
         w.all_gather({m, 2}, {m + 8, 5});
       }},
      {"wrong block of all_gather", bad,
       [=](auto& w) {
         w.all_gather({m + 2 * (1 - w.rank()), 2}, {m, 4});
       }},
      {"wrong block of reduce_scatter", bad,
       [=](auto& w) {
         w.reduce_scatter({m, 4}, {m + 2 * (1 - w.rank()), 2});
       }},
      {"null pointer", bad,
       [](auto& w) {
         w.all_reduce({static_cast<float*>(nullptr), 4});
       }},
  };
}

std::vector<BadCall> bad_values() {
  const Code bad = Code::kInvalidArgument;
  float* m = memory();
  const auto scheduled = [](const char* name) { return harness::with_schedule(name); };
  CallOptions weight;
  weight.weight = 1;
  return {
      {"average of bool", bad,
       [=](auto& w) {
         w.all_reduce({m, 4, DType::kBool}, ReduceOp::kAverage);
       }},
      {"bits of floats", bad,
       [=](auto& w) {
         w.all_reduce({m, 4}, ReduceOp::kBitXor);
       }},
      {"bits of halves", bad,
       [=](auto& w) {
         w.reduce({m, 4, DType::kBF16}, 0, ReduceOp::kBitAnd);
       }},
      {"root too large", bad,
       [=](auto& w) {
         w.broadcast({m, 4}, w.size());
       }},
      {"root negative", bad,
       [=](auto& w) {
         w.broadcast({m, 4}, -1);
       }},
      {"root of reduce negative", bad,
       [=](auto& w) {
         w.reduce({m, 4}, -7);
       }},
      {"unknown schedule", bad,
       [=](auto& w) {
         w.all_reduce({m, 4}, ReduceOp::kSum, scheduled("spiral"));
       }},
      {"schedule without broadcast", Code::kUnsupported,
       [=](auto& w) {
         w.broadcast({m, 4}, 0, scheduled("two_shot"));
       }},
      {"weighted sum", bad,
       [=](auto& w) {
         w.all_reduce({m, 4}, ReduceOp::kSum, weight);
       }},
      {"weighted reduce", Code::kUnsupported,
       [=](auto& w) {
         w.reduce({m, 4}, 0, ReduceOp::kAverage, weight);
       }},
      {"CUDA", Code::kUnsupported,
       [=](auto& w) {
         w.all_reduce({m, 4, DType::kF32, {DeviceKind::kCuda, 0}});
       }},
  };
}

// Rank 0 alone makes the bad calls: had one of them sent or counted anything, the right calls after
// it would no longer match.
void expect_refusals(Session& session, const std::vector<BadCall>& calls) {
  for (const BadCall& bad : calls) {
    if (session.rank() == 0) {
      try {
        bad.call(session.world());
        ADD_FAILURE() << bad.what << " was accepted";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), bad.code) << bad.what << ": " << error.what();
        EXPECT_GT(error.status().message().size(), 8u) << bad.what;
        EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
        EXPECT_FALSE(error.status().operation().empty()) << error.what();
      }
    }
    EXPECT_TRUE(works(session.world())) << "after " << bad.what;
    EXPECT_TRUE(session.world().status().ok());
  }
}

TEST_P(Arguments, BadShapesAreRefused) {
  run(2, [](Session& session) { expect_refusals(session, bad_shapes()); });
}

TEST_P(Arguments, BadValuesAreRefused) {
  run(2, [](Session& session) { expect_refusals(session, bad_values()); });
}

TEST_P(Arguments, InPlaceBlocksAreAccepted) {
  run(2, [](Session& session) {
    float m[4] = {1, 2, 3, 4};
    const int own = 2 * session.rank();
    session.world().reduce_scatter({m, 4}, {m + own, 2}).wait();
    EXPECT_EQ(m[own + 1], own == 0 ? 4.0f : 8.0f);
    session.world().all_gather({m + own, 2}, {m, 4}).wait();
    EXPECT_EQ(m[0], 2.0f);
    EXPECT_EQ(m[3], 8.0f);
  });
}

TEST(ArgumentsThreads, NoRanksAreRefused) {
  EXPECT_EQ(code_of([] { init_threads(0); }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([] { init_threads(-3); }), Code::kInvalidArgument);
}

TEST(ArgumentsThreads, UnknownForcedScheduleIsRefused) {
  SessionOptions options = harness::test_options();
  options.schedule = "spiral";
  EXPECT_EQ(code_of([&] {
              auto sessions = init_threads(1, options);
              float x = 1;
              sessions[0].world().all_reduce({&x, 1}).wait();
            }),
            Code::kInvalidArgument);
}

}  // namespace
}  // namespace syncline::conformance
