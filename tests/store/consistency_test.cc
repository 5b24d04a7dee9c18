// Who waits for whom.
#include <atomic>
#include <memory>
#include <thread>

#include "tests/conformance/each_wiring.h"
#include "tests/store/views.h"

namespace syncline::store {
namespace {

using conformance::EachWiring;
using namespace std::chrono_literals;

class StoreConsistency : public EachWiring {};
SYNCLINE_ON_EACH_STORE(StoreConsistency);

TEST_P(StoreConsistency, AsynchronousAddsAndWaitsForNobody) {
  run(2, [](Session& session) {
    KVStore kv = session.kvstore(KVStoreOptions().consistency(Consistency::asynchronous()));
    std::vector<float> w(50000, 0), ones(50000, 1);
    kv.init("w", view(w));
    for (int i = 0; i < 20; ++i) kv.push("w", view(ones)).wait();
    kv.pull("w", view(w)).wait();
    EXPECT_GE(w[0], 20);
    kv.flush();
    session.world().barrier().wait();
    kv.pull("w", view(w)).wait();
    EXPECT_EQ(w, std::vector<float>(50000, 40));
  });
}

// Worker 1 stands still in clock 0: worker 0 may read up to clock `bound`, not further.
TEST_P(StoreConsistency, TheBoundHolds) {
  run(2, [](Session& session) {
    KVStore kv = session.kvstore(KVStoreOptions().consistency(Consistency::bounded_staleness(2)));
    kv.set_optimizer(optim::Sgd(1));
    std::vector<float> w(10, 0), minus(10, -1);
    kv.init("w", view(w));
    if (session.rank() == 1) {
      std::this_thread::sleep_for(400ms);
      kv.push("w", view(minus)).wait();
      kv.clock();
      session.world().barrier().wait();
      return;
    }
    for (int clock = 0; clock < 3; ++clock) {
      kv.pull("w", view(w)).wait();
      EXPECT_EQ(w[0], static_cast<float>(clock));
      kv.push("w", view(minus)).wait();
      kv.clock();
    }
    Work third = kv.pull("w", view(w));
    EXPECT_EQ(third.wait_for(100ms).code(), Code::kTimeout)
        << "clock 3 reads before clock 0 closed";
    third.wait();
    EXPECT_EQ(w[0], 4);
    session.world().barrier().wait();
  });
}

// Who finishes holds nobody back.
TEST_P(StoreConsistency, FinishedWorkersDoNotCount) {
  run(3, [](Session& session) {
    KVStore kv = session.kvstore();
    std::vector<float> w(10, 0), ones(10, 1);
    kv.init("w", view(w));
    if (session.rank() == 2) return;
    for (int clock = 0; clock < 5; ++clock) {
      kv.push("w", view(ones)).wait();
      kv.clock();
      kv.pull("w", view(w)).wait();
      EXPECT_EQ(w[0], 2);
    }
  });
}

// A clock in which a worker does not push a key: it contributes nothing.
TEST_P(StoreConsistency, MissingPushes) {
  run(3, [](Session& session) {
    KVStore kv = session.kvstore();
    std::vector<float> w(10, 5), mine(10, static_cast<float>(1 << session.rank()));
    kv.init("w", view(w));
    for (int clock = 0; clock < 8; ++clock) {
      if ((clock >> session.rank()) % 2 == 1) kv.push("w", view(mine)).wait();
      kv.clock();
      kv.pull("w", view(w)).wait();
      EXPECT_EQ(w[0], clock == 0 ? 5 : clock);
    }
  });
}

// As a trainer does: gradients that go once they have left, pulls behind them, all keys at once.
TEST_P(StoreConsistency, AsynchronousSteps) {
  constexpr int kSteps = 150;
  run(3, [](Session& session) {
    KVStore kv = session.kvstore(KVStoreOptions().consistency(Consistency::asynchronous()));
    kv.set_optimizer(optim::Sgd(1));
    const std::vector<std::size_t> counts{288, 32, 18'432, 64, 200'000, 128, 1280, 10};
    std::vector<std::vector<float>> weights;
    for (std::size_t k = 0; k < counts.size(); ++k) {
      weights.emplace_back(counts[k], 0.0F);
      kv.init(std::to_string(k), view(weights[k]));
    }
    float total = 0;
    for (int step = 1; step <= kSteps; ++step) {
      kv.set_optimizer(optim::Sgd(1 + step % 3));  // a schedule
      total += static_cast<float>(1 + step % 3);
      for (std::size_t k = counts.size(); k-- > 0;) {
        auto gradient = std::make_shared<std::vector<float>>(counts[k], -1.0F);
        Work work =
            kv.push(std::to_string(k), view(*gradient), Push().priority(-static_cast<int>(k)));
        work.on_complete([gradient](const Status&) {});
      }
      kv.clock();
      std::vector<Work> pulls;
      for (std::size_t k = 0; k < counts.size(); ++k) {
        pulls.push_back(
            kv.pull(std::to_string(k), view(weights[k]), Pull().priority(-static_cast<int>(k))));
      }
      for (std::size_t k = 0; k < counts.size(); ++k) {
        pulls[k].wait();
        for (const float w : weights[k]) {
          const bool possible =
              w >= total && w <= 9.0F * kSteps && w == static_cast<float>(static_cast<int>(w));
          ASSERT_TRUE(possible) << "step " << step << " key " << k << ": " << w;
        }
      }
    }
    kv.flush();
    session.world().barrier().wait();
    for (std::size_t k = 0; k < counts.size(); ++k) {
      kv.pull(std::to_string(k), view(weights[k])).wait();
      EXPECT_EQ(weights[k], std::vector<float>(counts[k], 3 * total)) << k;
    }
  });
}

}  // namespace
}  // namespace syncline::store
