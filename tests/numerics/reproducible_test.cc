// Reproducible reductions: one value, whatever schedule, transport, segment size and cut into
// calls.
//
// The oracle below shares nothing with the library: it adds neighbours, level by level, and hands
// an odd one up: the balanced tree over the next power of two with missing leaves skipped.
#include <cmath>
#include <random>
#include <vector>

#include "plan/generators.h"
#include "tests/harness/process_job.h"
#include "tests/harness/wiring.h"
#include "tests/numerics/every_reduction.h"

namespace syncline::numerics {
namespace {

using harness::Wiring;

constexpr std::size_t kCount = 2003;
// Places where a vector is cut into calls, as gradients into buckets.
const std::vector<std::vector<std::size_t>> kLayouts = {
    {0, kCount}, {0, 1, 3, 64, 1000, 1003, 2001, kCount}, {0, 1500, 1516, kCount}};

// Large values that cancel, and small ones that are lost if they meet a large one before: nearly
// every order of the additions gives a value of its own, also after rounding to 16 bits.
Bytes mixed_magnitudes(DType type, int rank) {
  std::mt19937_64 shared(4242);
  std::mt19937_64 own(static_cast<std::uint64_t>(rank) * 7919 + 17);
  std::uniform_real_distribution<double> mantissa(1, 2);
  const int reach = type == DType::kF64 ? 40 : type == DType::kF16 ? 13 : 20;
  std::uniform_int_distribution<int> exponent(-reach, 3 - reach), role(0, 3);
  Bytes out;
  for (std::size_t i = 0; i < kCount; ++i) {
    const double large = std::ldexp(mantissa(shared), reach);
    const double small = std::ldexp(mantissa(own), exponent(own));
    const double values[] = {large, -large, small, -small};
    const Bytes one = harness::element(type, values[role(own)]);
    out.insert(out.end(), one.begin(), one.end());
  }
  return out;
}

template <class T>
T pairwise_sum(std::vector<T> level) {
  while (level.size() > 1) {
    std::vector<T> above;
    for (std::size_t i = 0; i + 1 < level.size(); i += 2) above.push_back(level[i] + level[i + 1]);
    if (level.size() % 2 == 1) above.push_back(level.back());
    level = above;
  }
  return level[0];
}

template <class T>
T running_sum(const std::vector<T>& values) {
  T sum = values[0];
  for (std::size_t i = 1; i < values.size(); ++i) sum += values[i];
  return sum;
}

template <class T>
Bytes evaluate(DType type, ReduceOp op, int ranks, T (*sum)(const std::vector<T>&)) {
  std::vector<Bytes> inputs;
  for (int r = 0; r < ranks; ++r) inputs.push_back(mixed_magnitudes(type, r));
  Bytes out;
  for (std::size_t i = 0; i < kCount; ++i) {
    std::vector<T> values;
    for (const Bytes& in : inputs) {
      values.push_back(static_cast<T>(harness::value_of(type, &in[i * size_of(type)])));
    }
    T value = sum(values);
    if (op == ReduceOp::kAverage) value /= static_cast<T>(ranks);
    const Bytes one = harness::element(type, value);
    out.insert(out.end(), one.begin(), one.end());
  }
  return out;
}

template <class T>
T balanced(const std::vector<T>& values) {
  return pairwise_sum(values);
}

Bytes expected(DType type, ReduceOp op, int ranks) {
  if (type == DType::kF64) return evaluate<double>(type, op, ranks, balanced<double>);
  return evaluate<float>(type, op, ranks, balanced<float>);
}

Bytes in_rank_order(DType type, ReduceOp op, int ranks) {
  if (type == DType::kF64) return evaluate<double>(type, op, ranks, running_sum<double>);
  return evaluate<float>(type, op, ranks, running_sum<float>);
}

SessionOptions reproducible_options(std::size_t segment_bytes = 0) {
  SessionOptions options = harness::test_options();
  options.reproducible = true;
  options.segment_bytes = segment_bytes;
  return options;
}

// All calls of a layout are in flight together.
Bytes reduce_in_parts(Communicator& world, DType type, const Bytes& in, ReduceOp op,
                      const std::vector<std::size_t>& cuts, const std::string& schedule) {
  const std::size_t width = size_of(type);
  Bytes out(in.size(), std::byte{0x5e});
  std::vector<Work> works;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    const std::size_t count = cuts[i + 1] - cuts[i];
    works.push_back(world.all_reduce(ConstTensorView{in.data() + cuts[i] * width, count, type},
                                     TensorView{out.data() + cuts[i] * width, count, type}, op,
                                     harness::with_schedule(schedule)));
  }
  for (Work& work : works) work.wait();
  return out;
}

void expect_canonical(Session& session, DType type, ReduceOp op, const Bytes& canonical) {
  Communicator& world = session.world();
  const Bytes in = mixed_magnitudes(type, world.rank());
  const std::string where = std::string(to_string(type)) + " " + to_string(op) + ", rank " +
                            std::to_string(world.rank()) + " of " + std::to_string(world.size());
  auto names = harness::canonical_schedules(Collective::kAllReduce, world.size());
  EXPECT_GE(names.size(), 4u);
  names.emplace_back();  // the planner's choice
  for (const auto& name : names) {
    for (const auto& cuts : kLayouts) {
      EXPECT_TRUE(reduce_in_parts(world, type, in, op, cuts, name) == canonical)
          << "all_reduce by '" << name << "' in " << cuts.size() - 1 << " calls: " << where;
    }
  }
  const int root = world.size() / 2;
  for (const auto& name : harness::canonical_schedules(Collective::kReduce, world.size())) {
    const Bytes out = harness::reduce(world, type, in, root, op, harness::with_schedule(name));
    EXPECT_TRUE(world.rank() != root || out == canonical) << "reduce by " << name << ": " << where;
  }
  for (const auto& name : harness::canonical_schedules(Collective::kReduceScatter, world.size())) {
    const Bytes out = harness::reduce_scatter(world, type, in, op, harness::with_schedule(name));
    EXPECT_TRUE(out == canonical) << "reduce_scatter by " << name << ": " << where;
  }
}

class Reproducible : public ::testing::TestWithParam<std::tuple<Wiring, int>> {};

TEST_P(Reproducible, SameBitsByEveryWay) {
  const auto [wiring, ranks] = GetParam();
  struct Sum {
    DType type;
    ReduceOp op;
    Bytes canonical;
  };
  std::vector<Sum> sums;
  for (const DType type : kFloats) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage}) {
      sums.push_back({type, op, expected(type, op, ranks)});
    }
  }
  for (const std::size_t segment_bytes : {0, 256, 1000}) {
    const auto body = [&sums](Session& session) {
      for (const Sum& sum : sums) expect_canonical(session, sum.type, sum.op, sum.canonical);
    };
    SCOPED_TRACE("segments of " + std::to_string(segment_bytes));
    harness::run_on(wiring, ranks, body, reproducible_options(segment_bytes));
  }
}

INSTANTIATE_TEST_SUITE_P(Over, Reproducible,
                         ::testing::Combine(::testing::Values(Wiring::kThreads, Wiring::kShm,
                                                              Wiring::kTcp),
                                            ::testing::Range(2, 9)),
                         [](const auto& param) {
                           return harness::to_string(std::get<0>(param.param)) + "_" +
                                  std::to_string(std::get<1>(param.param));
                         });

// Hosts that are aligned admit hierarchies, and these give the same bits as anything else.
class ReproducibleHosts : public ::testing::TestWithParam<std::vector<int>> {};

TEST_P(ReproducibleHosts, SameBitsByEveryAdmittedHierarchy) {
  const std::vector<int>& host_of = GetParam();
  const int ranks = static_cast<int>(host_of.size());
  for (const std::size_t segment_bytes : {0, 1000}) {
    for (const DType type : kFloats) {
      const Bytes canonical = expected(type, ReduceOp::kSum, ranks);
      const auto body = [&](Session& session) {
        const Bytes in = mixed_magnitudes(type, session.rank());
        int admitted = 0;
        for (const plan::Generator* hierarchy : plan::generators_named("hierarchical")) {
          if (!hierarchy->make(Collective::kAllReduce, ranks, 0, host_of).canonical_sum) continue;
          ++admitted;
          for (const auto& cuts : kLayouts) {
            EXPECT_TRUE(reduce_in_parts(session.world(), type, in, ReduceOp::kSum, cuts,
                                        hierarchy->name) == canonical)
                << hierarchy->name << " " << to_string(type) << " in " << cuts.size() - 1
                << " calls, rank " << session.rank();
          }
        }
        EXPECT_GE(admitted, 16);
      };
      harness::run_ranks_on_hosts(host_of, body, reproducible_options(segment_bytes));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Aligned, ReproducibleHosts,
                         ::testing::Values(std::vector<int>{0, 0, 1}, std::vector<int>{0, 0, 1, 1},
                                           std::vector<int>{0, 0, 1, 1, 2, 2},
                                           std::vector<int>{0, 0, 0, 0, 1, 1, 1},
                                           std::vector<int>{0, 0, 0, 0, 1, 1, 1, 1}));

// Without this the tests above would pass for any order.
TEST(ReproducibleInputs, TellOrdersApart) {
  for (const DType type : kFloats) {
    for (int ranks = 4; ranks <= 8; ++ranks) {
      const Bytes a = expected(type, ReduceOp::kSum, ranks);
      const Bytes b = in_rank_order(type, ReduceOp::kSum, ranks);
      std::size_t differ = 0;
      const std::size_t width = size_of(type);
      for (std::size_t i = 0; i < kCount; ++i) {
        const bool same = std::equal(a.begin() + static_cast<std::ptrdiff_t>(i * width),
                                     a.begin() + static_cast<std::ptrdiff_t>((i + 1) * width),
                                     b.begin() + static_cast<std::ptrdiff_t>(i * width));
        if (!same) ++differ;
      }
      EXPECT_GT(differ, kCount / 30) << to_string(type) << " over " << ranks << " ranks";
    }
  }
}

// Worked by hand: ((1e8 + 1) + (-1e8 + 1)) + 1 = (1e8 + -1e8) + 1 in f32, where 8 is the unit at
// 1e8. In rank order it is 2.
TEST(ReproducibleValue, IsTheBalancedTree) {
  harness::run_ranks(
      5,
      [](Session& session) {
        const float inputs[] = {1e8f, 1, -1e8f, 1, 1};
        float x = inputs[session.rank()];
        session.world().all_reduce({&x, 1}).wait();
        EXPECT_EQ(x, 1.0f);
      },
      reproducible_options());
}

std::string refusal(const std::function<Work()>& call) {
  try {
    call().wait();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalidArgument) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "was accepted";
  return "";
}

void expect_explained(const std::string& text, const std::string& kind) {
  for (const std::string& part :
       {"'ring' is not admitted to a reproducible " + kind, std::string("canonical sum"),
        std::string("but evaluates"), std::string("one_shot"), std::string("planner"),
        std::string("SYNCLINE_REPRODUCIBLE")}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
  }
}

TEST(ReproducibleRefuses, AScheduleOfAnotherOrder) {
  harness::run_ranks(
      3,
      [](Session& session) {
        Communicator& world = session.world();
        std::vector<float> x(3, 1), y(3, 1);
        const CallOptions ring = harness::with_schedule("ring");
        expect_explained(refusal([&] {
                           return world.all_reduce({x.data(), 3}, ReduceOp::kSum, ring);
                         }),
                         "all_reduce");
        expect_explained(
            refusal([&] {
              return world.reduce_scatter({x.data(), 3}, {y.data(), 1}, ReduceOp::kSum, ring);
            }),
            "reduce_scatter");
        EXPECT_EQ(x, std::vector<float>(3, 1));
        world.all_gather({x.data(), 1}, {y.data(), 3}, ring).wait();  // adds nothing
        world.broadcast({x.data(), 3}, 1, ring).wait();
        CallOptions free = ring;
        free.reproducible = false;
        world.all_reduce({x.data(), 3}, ReduceOp::kSum, free).wait();
        EXPECT_EQ(x, std::vector<float>(3, 3));
      },
      reproducible_options());
}

TEST(ReproducibleRefuses, RingEvenWhereTwoRanksLeaveNoOrder) {
  harness::run_ranks(
      2,
      [](Session& session) {
        float x = 1;
        const std::string text = refusal([&] {
          return session.world().all_reduce({&x, 1}, ReduceOp::kSum,
                                            harness::with_schedule("ring"));
        });
        EXPECT_NE(text.find("promises no order"), std::string::npos) << text;
      },
      reproducible_options());
}

TEST(ReproducibleRefuses, AScheduleOfTheWholeSession) {
  SessionOptions options = reproducible_options();
  options.schedule = "ring";
  harness::run_ranks(
      3,
      [](Session& session) {
        float x = 1;
        expect_explained(refusal([&] {
                           return session.world().all_reduce({&x, 1});
                         }),
                         "all_reduce");
      },
      options);
}

TEST(ReproducibleVariable, TurnsItOnAndMustBeReadable) {
  harness::ProcessOptions options;
  options.own_session = false;
  options.env = {{"SYNCLINE_REPRODUCIBLE", "1"}};
  harness::ProcessJob(
      3,
      [](int) {
        Session session = init(harness::test_options());
        float x = 1;
        expect_explained(refusal([&] {
                           return session.world().all_reduce({&x, 1}, ReduceOp::kSum,
                                                             harness::with_schedule("ring"));
                         }),
                         "all_reduce");
      },
      options)
      .expect_success();
  options.env = {{"SYNCLINE_REPRODUCIBLE", "perhaps"}};
  harness::ProcessJob(
      1,
      [](int) {
        try {
          init(harness::test_options());
          ADD_FAILURE() << "was accepted";
        } catch (const Error& error) {
          EXPECT_NE(std::string(error.what()).find("SYNCLINE_REPRODUCIBLE=perhaps"),
                    std::string::npos)
              << error.what();
        }
      },
      options)
      .expect_success();
}

// Ranks whose sessions disagree get a mismatch that names the difference, whatever schedules run.
TEST(ReproducibleMismatch, OfSessions) {
  for (const char* free_schedule : {"", "ring", "tree"}) {
    for (const char* transport : {"shm", "tcp"}) {
      harness::ProcessOptions options;
      options.own_session = false;
      options.transport = transport;
      harness::ProcessJob(
          4,
          [free_schedule](int rank) {
            SessionOptions mine = harness::test_options();
            mine.reproducible = rank == 1;
            if (!mine.reproducible) mine.schedule = free_schedule;
            Session session = init(mine);
            std::vector<float> x(100000, 1);
            const Status status =
                session.world().all_reduce({x.data(), x.size()}).wait_for(std::chrono::seconds(10));
            EXPECT_EQ(status.code(), Code::kMismatch) << status.to_string();
            EXPECT_NE(status.to_string().find("sum, reproducible)"), std::string::npos)
                << status.to_string();
          },
          options)
          .expect_success();
    }
  }
}

TEST(ReproducibleMismatch, OfSegmentSizes) {
  harness::ProcessOptions options;
  options.own_session = false;
  harness::ProcessJob(
      2,
      [](int rank) {
        SessionOptions mine = reproducible_options(rank == 0 ? 1024 : 4096);
        Session session = init(mine);
        std::vector<float> x(100000, 1);
        const Status status =
            session.world().all_reduce({x.data(), x.size()}).wait_for(std::chrono::seconds(10));
        EXPECT_EQ(status.code(), Code::kMismatch) << status.to_string();
        EXPECT_NE(status.to_string().find("segment sizes differ"), std::string::npos)
            << status.to_string();
      },
      options)
      .expect_success();
}

}  // namespace
}  // namespace syncline::numerics
