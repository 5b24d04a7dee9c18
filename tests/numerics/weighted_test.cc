// Weighted averages: sum(weight * x) / sum(weight).
#include <vector>

#include "tests/numerics/every_reduction.h"

namespace syncline::numerics {
namespace {

CallOptions weighted(double weight, const std::string& schedule = "") {
  CallOptions options;
  options.schedule = schedule;
  options.weight = weight;
  return options;
}

TEST(WeightedAverage, IsThePerSampleMean) {
  for (const DType type : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
    harness::run_ranks(2, [type](Session& session) {
      const bool first = session.rank() == 0;
      const Bytes in = harness::filled(type, 1025, first ? 1 : 5);
      for (const auto& name : harness::schedules_for(Collective::kAllReduce, 2)) {
        const Bytes out = harness::all_reduce(session.world(), type, in, ReduceOp::kAverage,
                                              weighted(first ? 3 : 1, name));
        EXPECT_EQ(out, harness::filled(type, 1025, 2)) << to_string(type) << " by " << name;
      }
    });
  }
}

TEST(WeightedAverage, FractionsInPlaceAndEmpty) {
  harness::run_ranks(3, [](Session& session) {
    std::vector<double> data(5, session.rank() + 1.0);
    const double weight = session.rank() == 2 ? 0.5 : 0.25;
    session.world()
        .all_reduce({data.data(), data.size()}, ReduceOp::kAverage, weighted(weight))
        .wait();
    EXPECT_EQ(data, std::vector<double>(5, 2.25));  // 0.25 * 1 + 0.25 * 2 + 0.5 * 3
    session.world().all_reduce({data.data(), 0}, ReduceOp::kAverage, weighted(weight)).wait();
  });
}

TEST(WeightedAverage, ZeroWeightsCountNothing) {
  harness::run_ranks(3, [](Session& session) {
    const Bytes in = harness::filled(DType::kF32, 7, session.rank() + 1);
    const Bytes one = harness::all_reduce(session.world(), DType::kF32, in, ReduceOp::kAverage,
                                          weighted(session.rank() == 1 ? 4 : 0));
    EXPECT_EQ(one, harness::filled(DType::kF32, 7, 2));
    const Bytes none =
        harness::all_reduce(session.world(), DType::kF32, in, ReduceOp::kAverage, weighted(0));
    EXPECT_EQ(none, harness::filled(DType::kF32, 7, 0));
  });
}

TEST(WeightedAverage, RanksAgreeOnTheBits) {
  std::vector<Bytes> results(3);
  harness::run_ranks(3, [&](Session& session) {
    std::vector<float> in(1000);
    for (std::size_t i = 0; i < in.size(); ++i) {
      in[i] = 1.0f / static_cast<float>(i + 3 * static_cast<std::size_t>(session.rank()) + 1);
    }
    results[static_cast<std::size_t>(session.rank())] =
        harness::all_reduce(session.world(), DType::kF32, harness::to_bytes(in), ReduceOp::kAverage,
                            weighted(0.1 * (session.rank() + 1)));
  });
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST(WeightedAverage, OneRankWithoutWeightIsAMismatch) {
  harness::run_ranks(2, [](Session& session) {
    std::vector<float> data(8, 1.0f);
    const double weight = session.rank() == 0 ? 2.0 : -1.0;
    Work work = session.world().all_reduce({data.data(), 8}, ReduceOp::kAverage, weighted(weight));
    EXPECT_EQ(work.wait_for(std::chrono::seconds(5)).code(), Code::kMismatch);
  });
}

TEST(WeightedAverage, RefusesWhatHasNoMeaning) {
  harness::run_ranks(2, [](Session& session) {
    std::vector<std::int32_t> whole(4, 1);
    std::vector<float> real(4, 1.0f);
    Communicator& world = session.world();
    const auto code_of = [](const auto& call) {
      try {
        call();
      } catch (const Error& error) {
        return error.code();
      }
      return Code::kOk;
    };
    EXPECT_EQ(code_of([&] {
                world.all_reduce({whole.data(), 4}, ReduceOp::kAverage, weighted(1));
              }),
              Code::kInvalidArgument);
    EXPECT_EQ(code_of([&] {
                world.all_reduce({real.data(), 4}, ReduceOp::kSum, weighted(1));
              }),
              Code::kInvalidArgument);
    world.all_reduce({real.data(), 4}).wait();
    EXPECT_EQ(real[3], 2.0f);
  });
}

}  // namespace
}  // namespace syncline::numerics
