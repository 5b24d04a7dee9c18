// Saving and loading: another number of servers, another process, damaged files. Case CKPT-04 (PS
// shards).
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/conformance/each_wiring.h"
#include "tests/store/views.h"

namespace syncline::store {
namespace {

using conformance::code_of;
using conformance::EachWiring;

class StoreFiles : public EachWiring {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ("files-" + std::to_string(::getpid()) + "-" + harness::to_string(GetParam()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  std::filesystem::path folder_;
};
SYNCLINE_ON_EACH_STORE(StoreFiles);

std::vector<float> gradient_of(std::size_t count, int clock) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = 0.25F * static_cast<float>(static_cast<int>((i * 7 + 3U * clock) % 9) - 4);
  }
  return values;
}

constexpr std::size_t kLarge = 150'000;  // several slices on any number of servers
constexpr std::size_t kSmall = 11;
constexpr std::size_t kTableDim = 5;

struct Values {
  std::vector<float> large = std::vector<float>(kLarge), small = std::vector<float>(kSmall);
  std::vector<float> rows = std::vector<float>(40 * kTableDim);
  bool operator==(const Values&) const = default;
};

Ids all_rows() {
  Ids ids(40);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i * i);
  return ids;
}

void make(KVStore& kv, const optim::Optimizer& row_optimizer) {
  Values start;
  std::fill(start.large.begin(), start.large.end(), 1.0F);
  std::fill(start.small.begin(), start.small.end(), -2.0F);
  kv.init("large", view(start.large));
  kv.init("small", view(start.small));
  kv.create_table("t", TableOptions()
                           .dim(kTableDim)
                           .unbounded()
                           .initializer(Init::normal(0.5, 7))
                           .optimizer(row_optimizer));
}

// Clocks [from, to); every gradient is exact, and the same whatever the number of workers: only
// worker 0 pushes.
void train(Session& session, KVStore& kv, int from, int to) {
  for (int clock = from; clock < to; ++clock) {
    if (session.rank() == 0) {
      auto large = gradient_of(kLarge, clock), small = gradient_of(kSmall, clock);
      Ids ids = all_rows();
      ids.resize(10U + 3U * static_cast<unsigned>(clock));
      auto rows = gradient_of(ids.size() * kTableDim, clock);
      kv.push("large", view(large)).wait();
      kv.push("small", view(small)).wait();
      kv.push_rows("t", view(ids), view(rows)).wait();
    }
    kv.clock();
  }
}

Values values_of(KVStore& kv) {
  Values out;
  const Ids ids = all_rows();
  kv.pull("large", view(out.large)).wait();
  kv.pull("small", view(out.small)).wait();
  kv.pull_rows("t", view(ids), view(out.rows)).wait();
  return out;
}

std::vector<optim::Optimizer> optimizers() {
  return {optim::Sgd(0.1),   optim::Sgd(0.1).momentum(0.9),
          optim::Adam(0.01), optim::AdamW(0.01),
          optim::Adagrad(),  optim::Rmsprop(0.01).momentum(0.9).centered(true),
          optim::Lars(0.1),  optim::Lamb(0.01)};
}

// 3 clocks, saved, loaded by as many workers as the test says (each serves a share), 2 clocks more:
// the same bits as 5 clocks of another store in one go.
TEST_P(StoreFiles, TrainingGoesOnWithAnyNumberOfServers) {
  const auto all = optimizers();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& optimizer = all[i];
    const optim::Optimizer row_optimizer =
        i % 2 == 0 ? optim::Optimizer(optim::RowwiseAdagrad(0.05)) : all[i];
    const std::string file = path("kv" + std::to_string(i));
    run(3, [&](Session& session) {
      KVStore kv = session.kvstore();
      kv.set_optimizer(optimizer);
      make(kv, row_optimizer);
      train(session, kv, 0, 3);
      kv.save(file);
    });
    for (const int workers : {1, 2, 5}) {
      run(workers, [&](Session& session) {
        KVStore kv = session.kvstore();
        kv.set_optimizer(optimizer);
        kv.load(file);
        make(kv, row_optimizer);  // what is there stays
        train(session, kv, 3, 5);
        KVStore whole = session.kvstore();
        whole.set_optimizer(optimizer);
        make(whole, row_optimizer);
        train(session, whole, 0, 5);
        EXPECT_TRUE(values_of(kv) == values_of(whole))
            << "optimiser " << i << ", " << workers << " workers";
      });
    }
    if (GetParam() != harness::Wiring::kThreads) break;  // one is enough
  }
}

// A pull of every key: this clock's pushes are in, where they were made.
TEST_P(StoreFiles, SaveSeesTheWorkersOwnPushes) {
  run(2, [&](Session& session) {
    KVStore kv = session.kvstore();
    std::vector<float> w(3, 0), ones(3, 1);
    kv.init("w", view(w));
    kv.push("w", view(ones));
    kv.clock();
    kv.save(path("w"));
  });
  run(1, [&](Session& session) {
    KVStore kv = session.kvstore();
    kv.load(path("w"));
    std::vector<float> w(3);
    kv.pull("w", view(w)).wait();
    EXPECT_EQ(w, std::vector<float>(3, 2));
  });
}

TEST_P(StoreFiles, EveryType) {
  const std::string file = path("types");
  run(2, [&](Session& session) {
    KVStore kv = session.kvstore();
    for (int t = 0; t < kDTypeCount; ++t) {
      const auto type = static_cast<DType>(t);
      auto value = harness::contribution(type, ReduceOp::kSum, 0);
      kv.init(to_string(type), harness::view(value, type));
    }
    kv.save(file);
  });
  run(1, [&](Session& session) {
    KVStore kv = session.kvstore();
    kv.load(file);
    for (int t = 0; t < kDTypeCount; ++t) {
      const auto type = static_cast<DType>(t);
      const auto value = harness::contribution(type, ReduceOp::kSum, 0);
      harness::Bytes out(value.size());
      kv.pull(to_string(type), harness::view(out, type)).wait();
      EXPECT_EQ(out, value) << to_string(type);
    }
  });
}

TEST_P(StoreFiles, WhatDoesNotFitIsRefusedByName) {
  run(1, [&](Session& session) {
    KVStore kv = session.kvstore();
    kv.set_optimizer(optim::Adam());
    std::vector<float> w(100, 1);
    kv.init("w", view(w));
    kv.save(path("adam"));
    EXPECT_EQ(code_of([&] { kv.load(path("adam")); }), Code::kFailedPrecondition);
    EXPECT_EQ(code_of([&] { kv.save(folder_.string()); }), Code::kInvalidArgument);
  });
  EXPECT_FALSE(std::filesystem::exists(path("adam.part")));
  const auto refuses = [&](const std::string& file, Code code, const std::string& part) {
    run(1, [&](Session& session) {
      KVStore kv = session.kvstore();
      kv.set_optimizer(optim::Sgd(0.1));
      try {
        kv.load(file);
        ADD_FAILURE() << file << " was loaded";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), code) << error.what();
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
      }
      std::vector<float> w(2, 1);
      kv.init("w", view(w));  // the store is as it was
    });
  };
  refuses(path("none"), Code::kInvalidArgument, "No such file");
  refuses(path("adam"), Code::kInvalidArgument,
          "saved with the optimiser adam, this store has sgd");
  std::ifstream in(path("adam"), std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  std::ofstream(path("short"), std::ios::binary) << whole.substr(0, whole.size() - 1);
  refuses(path("short"), Code::kCorrupt, path("short"));
  std::string flipped = whole;
  flipped[flipped.size() - 30] ^= 4;
  std::ofstream(path("flipped"), std::ios::binary) << flipped;
  refuses(path("flipped"), Code::kCorrupt, "checksum");
  std::ofstream(path("empty"), std::ios::binary);
  refuses(path("empty"), Code::kCorrupt, path("empty"));
}

}  // namespace
}  // namespace syncline::store
