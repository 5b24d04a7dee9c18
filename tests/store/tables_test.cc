// Tables of rows. Case PS-06.
#include "tests/conformance/each_wiring.h"
#include "tests/store/views.h"

namespace syncline::store {
namespace {

using conformance::code_of;
using conformance::EachWiring;

using namespace std::chrono_literals;

// How many of three workers have pushed to the row by step `id`: worker r pushes row (id + r) % 9.
int sees(std::int64_t id, std::int64_t row) {
  int count = 0;
  for (std::int64_t step = 0; step <= id; ++step) {
    for (std::int64_t rank = 0; rank < 3; ++rank) count += (step + rank) % 9 == row ? 1 : 0;
  }
  return count;
}

class StoreTables : public EachWiring {};
SYNCLINE_ON_EACH_STORE(StoreTables);

// PS-06: ids above 2^24 are themselves, and only the row that was pushed to changes.
TEST_P(StoreTables, LargeIds) {
  run(2, [](Session& session) {
    KVStore kv = session.kvstore();
    kv.create_table("t", TableOptions().dim(3).rows(50'000'000).initializer(Init::normal(1, 7)));
    Ids ids(8);
    for (std::size_t i = 0; i < 8; ++i) ids[i] = 40'000'001 + static_cast<std::int64_t>(i);
    std::vector<float> before(24), after(24);
    kv.pull_rows("t", view(ids), view(before)).wait();
    std::vector<float> one(3, 0.5F);
    kv.push_rows("t", view(Ids{40'000'003}), view(one)).wait();
    kv.clock();
    kv.pull_rows("t", view(ids), view(after)).wait();
    for (std::size_t i = 0; i < 24; ++i) {
      EXPECT_EQ(after[i], before[i] + (i / 3 == 2 ? 1.0F : 0.0F)) << i;
      EXPECT_NE(before[i], before[(i + 3) % 24]);
    }
    EXPECT_EQ(code_of([&] { kv.pull_rows("t", view(Ids{50'000'000}), view(one)).wait(); }),
              Code::kInvalidArgument);
  });
}

// Repeated ids: their gradients are summed before the update, each place gets its row.
TEST_P(StoreTables, RepeatedIds) {
  run(2, [](Session& session) {
    KVStore kv = session.kvstore();
    kv.create_table("t", TableOptions().dim(2).optimizer(optim::Sgd(1)));
    std::vector<float> gradients{1, 1, 2, 2, 4, 4};
    kv.push_rows("t", view(Ids{5, 9, 5}), view(gradients)).wait();
    kv.clock();
    std::vector<float> rows(8);
    kv.pull_rows("t", view(Ids{9, 5, 9, 1}), view(rows)).wait();
    EXPECT_EQ(rows, (std::vector<float>{-4, -4, -10, -10, -4, -4, 0, 0}));
  });
}

// Each worker pushes and pulls rows of other servers than the next one's, and waits before it ends
// its clock: the clock ends on all servers alike.
TEST_P(StoreTables, PullsOfDifferentRowsEndAClock) {
  run(3, [](Session& session) {
    KVStore kv = session.kvstore(KVStoreOptions().timeout(10s));
    kv.create_table("t", TableOptions().dim(1));
    for (int round = 1; round <= 3; ++round) {
      for (std::int64_t id = 0; id < 9; ++id) {
        std::vector<float> one(1, 1), row(1);
        const Ids pushed{(id + session.rank()) % 9}, pulled{(id + 2 * session.rank()) % 9};
        kv.push_rows("t", view(pushed), view(one)).wait();
        kv.pull_rows("t", view(pulled), view(row)).wait();
        EXPECT_EQ(row[0], 3 * (round - 1) + sees(id, pulled[0])) << "row " << pulled[0];
        kv.clock();
      }
    }
  });
}

// More rows than one message has room for, on every server; the same values on 1 and 3 servers.
TEST_P(StoreTables, ManyRows) {
  for (const int workers : {1, 3}) {
    run(workers, [](Session& session) {
      KVStore kv = session.kvstore();
      kv.create_table("t", TableOptions()
                               .dim(16)
                               .unbounded()
                               .initializer(Init::uniform(-1, 1, 3))
                               .optimizer(optim::RowwiseAdagrad(0.1)));
      Ids ids(30000);
      for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i * 3);
      std::vector<float> rows(ids.size() * 16), one(16);
      kv.pull_rows("t", view(ids), view(rows)).wait();
      kv.pull_rows("t", view(Ids{ids[20000]}), view(one)).wait();
      EXPECT_TRUE(std::equal(one.begin(), one.end(), rows.begin() + 20000 * 16));
      for (const float value : rows) ASSERT_LE(std::abs(value), 1);
      std::vector<float> gradients(rows.size(), static_cast<float>(session.rank() + 1));
      kv.push_rows("t", view(ids), view(gradients)).wait();
      kv.clock();
      std::vector<float> after(rows.size());
      kv.pull_rows("t", view(ids), view(after)).wait();
      // The first step of row-wise Adagrad is lr * g / (rms(g) + eps) = lr for equal gradients.
      for (std::size_t i = 0; i < after.size(); ++i)
        ASSERT_NEAR(after[i], rows[i] - 0.1, 1e-5) << i;
    });
  }
}

}  // namespace
}  // namespace syncline::store
