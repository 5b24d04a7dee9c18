// What a pull gives after pushes, bit for bit.
#include <numeric>

#include "ps/update.h"
#include "tests/conformance/each_wiring.h"
#include "tests/store/views.h"

namespace syncline::store {
namespace {

using conformance::EachWiring;
using harness::Bytes;

class StoreValues : public EachWiring {};
SYNCLINE_ON_EACH_STORE(StoreValues);

std::vector<float> pattern(std::size_t count, int worker, int clock) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = 1.0F / static_cast<float>(
                           1 + (i * 7 + static_cast<std::size_t>(13 * worker + clock)) % 101);
  }
  return values;
}

// The canonical sum of reproducible all_reduce.
std::vector<float> all_reduced(Session& session, std::vector<float> values) {
  CallOptions options;
  options.reproducible = true;
  session.world().all_reduce(view(values), ReduceOp::kSum, options).wait();
  return values;
}

TEST_P(StoreValues, BulkSumsAreThoseOfAllReduce) {
  for (const int workers : {1, 2, 3, 5}) {
    run(workers, [](Session& session) {
      KVStore kv = session.kvstore();
      const std::vector<std::size_t> counts{0, 1, 7, 4096, 200000};
      for (std::size_t k = 0; k < counts.size(); ++k) {
        std::vector<float> first(counts[k], static_cast<float>(k));
        kv.init("key" + std::to_string(k), view(first));
      }
      for (int clock = 0; clock < 3; ++clock) {
        for (std::size_t k = 0; k < counts.size(); ++k) {
          auto gradient = pattern(counts[k], session.rank(), clock);
          const auto expected = all_reduced(session, gradient);
          std::vector<float> out(counts[k], -1);
          kv.push("key" + std::to_string(k), view(gradient)).wait();
          kv.pull("key" + std::to_string(k), view(out)).wait();
          EXPECT_EQ(out, expected) << k << " clock " << clock;
          kv.clock();
        }
      }
    });
  }
}

// Every type's sum is that of all_reduce, rounded once.
TEST_P(StoreValues, EveryType) {
  run(3, [](Session& session) {
    KVStore kv = session.kvstore();
    for (int t = 0; t < kDTypeCount; ++t) {
      const auto type = static_cast<DType>(t);
      const std::string key = to_string(type);
      Bytes in = harness::contribution(type, ReduceOp::kSum, session.rank());
      Bytes expected = harness::all_reduce(session.world(), type, in, ReduceOp::kSum);
      kv.init(key, harness::view(in, type));
      Bytes out(in.size());
      kv.push(key, harness::view(in, type)).wait();
      kv.pull(key, harness::view(out, type)).wait();
      EXPECT_EQ(out, expected) << key;
      kv.clock();
    }
  });
}

TEST_P(StoreValues, MeanBySamples) {
  run(2, [](Session& session) {
    KVStore kv = session.kvstore(KVStoreOptions().reduce(Reduce::kMeanBySamples));
    std::vector<float> w(10, 0);
    kv.init("w", view(w));
    std::vector<float> gradient(10, session.rank() == 0 ? 1.0F : 4.0F);
    kv.push("w", view(gradient), Push().samples(session.rank() == 0 ? 2 : 1)).wait();
    kv.pull("w", view(w)).wait();
    EXPECT_EQ(w, std::vector<float>(10, 2.0F));
  });
}

// Values of several devices are summed first.
TEST_P(StoreValues, DeviceLists) {
  run(2, [](Session& session) {
    KVStore kv = session.kvstore();
    std::vector<float> a(5, 1), b(5, 2), out(5);
    kv.init("w", view(a));
    kv.push("w", std::vector<ConstTensorView>{view(a), view(b)}).wait();
    kv.pull("w", view(out)).wait();
    EXPECT_EQ(out, std::vector<float>(5, 6.0F));
  });
}

TEST_P(StoreValues, PushPullInPlace) {
  run(2, [](Session& session) {
    KVStore kv = session.kvstore();
    std::vector<float> x(300000, static_cast<float>(session.rank() + 1));
    kv.init("x", view(x));
    kv.push_pull("x", view(x)).wait();
    EXPECT_EQ(x, std::vector<float>(300000, 3.0F));
  });
}

// The whole tensor in one place, one step for each gradient.
std::vector<float> stepped(const optim::Optimizer& optimizer, std::vector<float> weights,
                           const std::vector<std::vector<float>>& gradients) {
  std::vector<float> first(weights.size()), second(weights.size());
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const ps::Slice slice{
        weights.size(), weights.data(), {first.data(), second.data()}, gradients[i].data()};
    std::vector<ps::SquareSums> sums;
    ps::advance(optimizer, i + 1, slice, sums);
    ps::apply(optimizer, i + 1, ps::trust_ratio(optimizer, sums), slice);
  }
  return weights;
}

// LARS and LAMB: servers exchange the norms of what is cut over them.
TEST_P(StoreValues, NormsOfACutTensorAreThoseOfTheWhole) {
  for (const int workers : {1, 2, 3, 5}) {
    run(workers, [](Session& session) {
      for (const optim::Optimizer& optimizer :
           {optim::Optimizer(optim::Lars(0.5)), optim::Optimizer(optim::Lamb(0.01))}) {
        KVStore kv = session.kvstore();
        kv.set_optimizer(optimizer);
        std::vector<float> w(200'003, 0.5F), out(w.size());
        kv.init("w", view(w));
        std::vector<std::vector<float>> gradients;
        for (int clock = 0; clock < 3; ++clock) {
          auto gradient = pattern(w.size(), session.rank(), clock);
          gradients.push_back(all_reduced(session, gradient));
          kv.push_pull("w", view(gradient)).wait();
          out = gradient;
          kv.clock();
        }
        EXPECT_EQ(out, stepped(optimizer, w, gradients));
      }
    });
  }
}

// An update of the program's own: signs of the gradients, with a count of steps as its state.
void sign_update(const optim::Optimizer& optimizer, std::uint64_t step, std::size_t count,
                 float* weights, float* const* slots, const float* gradient) {
  for (std::size_t i = 0; i < count; ++i) {
    slots[0][i] += 1;
    EXPECT_EQ(slots[0][i], 10 + static_cast<float>(step));
    weights[i] -= static_cast<float>(optimizer.lr()) * (gradient[i] > 0 ? 1.0F : -1.0F);
  }
}

TEST_P(StoreValues, CustomUpdates) {
  optim::register_update(7, sign_update, 1, 10);
  run(2, [](Session& session) {
    KVStore kv = session.kvstore();
    kv.set_optimizer(optim::Custom(7, 0.5));
    std::vector<float> w(200'000, 3), gradient(w.size(), session.rank() == 0 ? 2.0F : -1.0F);
    kv.init("w", view(w));
    const Ids ids{4, 9};
    kv.create_table("t", TableOptions().dim(2).unbounded().optimizer(optim::Custom(7, 0.25)));
    std::vector<float> rows(4, 1), row_gradients(4, -1);
    for (int clock = 0; clock < 3; ++clock) {
      kv.push("w", view(gradient)).wait();
      kv.push_rows("t", view(ids), view(row_gradients)).wait();
      kv.clock();
    }
    kv.pull("w", view(w)).wait();
    kv.pull_rows("t", view(ids), view(rows)).wait();
    EXPECT_EQ(w, std::vector<float>(w.size(), 1.5F));
    EXPECT_EQ(rows, std::vector<float>(4, 0.75F));
  });
  run(1, [](Session& session) {
    KVStore kv = session.kvstore();
    EXPECT_EQ(conformance::code_of([&] { kv.set_optimizer(optim::Custom(99)); }),
              Code::kInvalidArgument);
  });
}

// Sgd on the server: w -= lr * sum.
TEST_P(StoreValues, OptimizerOnTheServer) {
  run(3, [](Session& session) {
    KVStore kv = session.kvstore();
    kv.set_optimizer(optim::Sgd(0.5));
    std::vector<float> w(100000, 8);
    kv.init("w", view(w));
    const std::vector<float> ones(w.size(), 1);
    for (int clock = 1; clock <= 4; ++clock) {
      kv.push("w", {ones.data(), ones.size()}).wait();
      kv.clock();
      kv.pull("w", view(w)).wait();
      EXPECT_EQ(w, std::vector<float>(w.size(), 8 - 1.5F * static_cast<float>(clock)));
    }
  });
}

}  // namespace
}  // namespace syncline::store
