// Hosts that sum for their workers: the same bits as without, and what a death takes with it.
#include <atomic>
#include <chrono>
#include <thread>

#include "ps/run_server.h"
#include "session/session_impl.h"
#include "tests/harness/thread_job.h"
#include "tests/store/views.h"

namespace syncline::store {
namespace {

using harness::Bytes;
using namespace std::chrono_literals;

struct Hosts {
  std::vector<int> of_workers, of_servers;
};

// Weighted pushes of every type, two a clock, of all workers or of some.
void expect_same_sums(Session& session, Reduce reduce) {
  const auto options = [&](bool sums) { return KVStoreOptions().reduce(reduce).host_sums(sums); };
  KVStore summed = session.kvstore(options(true)), plain = session.kvstore(options(false));
  EXPECT_TRUE(summed.sums_on_hosts());
  EXPECT_FALSE(plain.sums_on_hosts());
  for (int t = 0; t < kDTypeCount; ++t) {
    const auto type = static_cast<DType>(t);
    if (type == DType::kBool && reduce != Reduce::kSum) continue;
    const std::string key = to_string(type);
    const Bytes in = harness::contribution(type, ReduceOp::kSum, session.rank());
    Bytes first = in, out(in.size()), expected(in.size());
    for (KVStore* kv : {&summed, &plain}) kv->init(key, harness::view(first, type));
    for (int clock = 0; clock < 4; ++clock) {
      const bool weighted = clock % 2 == 1;
      const int pushes = clock == 3 ? session.rank() % 3 : 2;
      for (KVStore* kv : {&summed, &plain}) {
        for (int i = 0; i < pushes; ++i) {
          Bytes push = harness::contribution(type, ReduceOp::kSum, session.rank() + 7 * i);
          kv->push(key, harness::view(push, type), Push().samples(weighted ? 1 + i : 1)).wait();
        }
        kv->clock();
      }
      summed.pull(key, harness::view(out, type)).wait();
      plain.pull(key, harness::view(expected, type)).wait();
      EXPECT_EQ(out, expected) << key << ", clock " << clock << ", rank " << session.rank();
    }
  }
}

TEST(StoreHosts, SumsHaveTheBitsOfTheCanonicalSum) {
  for (const Hosts& hosts : {Hosts{{0, 0}, {1}}, Hosts{{0, 0, 1, 1}, {2, 3}}, Hosts{{0, 0, 1}, {2}},
                             Hosts{{0, 0, 0, 0, 1}, {2, 0}}, Hosts{{3, 1, 2, 2}, {0}}}) {
    for (const Reduce reduce : {Reduce::kSum, Reduce::kMeanBySamples}) {
      harness::run_ranks_with_servers(hosts.of_workers, hosts.of_servers,
                                      [&](Session& session) { expect_same_sums(session, reduce); });
    }
  }
}

// Where the tree of all workers and the hosts do not fit each other.
TEST(StoreHosts, ReproducibleSessionsSumOnlyWhereTheBitsStay) {
  for (const bool reproducible : {false, true}) {
    SessionOptions options = harness::test_options();
    options.reproducible = reproducible;
    for (const std::vector<int>& host_of :
         {std::vector<int>{0, 1, 0, 1}, {0, 1, 1}, {0, 0, 1, 1}}) {
      const bool fits = host_of[0] == host_of[1];
      harness::run_ranks_with_servers(
          host_of, {5},
          [&](Session& session) {
            KVStore kv = session.kvstore();
            EXPECT_EQ(kv.sums_on_hosts(), !reproducible || fits);
            std::vector<float> w(100, 0), out(100);
            kv.init("w", view(w));
            for (float& each : w) each = 1 + static_cast<float>(session.rank());
            kv.push("w", view(w)).wait();
            kv.pull("w", view(out)).wait();
            const auto n = static_cast<float>(session.world_size());
            EXPECT_EQ(out, std::vector<float>(100, n * (n + 1) / 2));
          },
          options);
    }
  }
}

TEST(StoreHosts, OnlyBulkStoresAndSharedHosts) {
  const auto sums = [](std::vector<int> host_of, std::vector<int> servers,
                       Consistency consistency) {
    bool all = false;
    harness::run_ranks_with_servers(host_of, std::move(servers), [&](Session& session) {
      KVStore kv = session.kvstore(KVStoreOptions().consistency(consistency));
      if (session.rank() == 0) all = kv.sums_on_hosts();
    });
    return all;
  };
  EXPECT_TRUE(sums({0, 0}, {1}, Consistency::bulk_synchronous()));
  EXPECT_TRUE(sums({0, 0}, {0, 1}, Consistency::bulk_synchronous()));
  EXPECT_FALSE(sums({0, 0}, {0}, Consistency::bulk_synchronous()));
  EXPECT_FALSE(sums({0, 1}, {0}, Consistency::bulk_synchronous()));
  EXPECT_FALSE(sums({0, 0}, {1}, Consistency::bounded_staleness(1)));
  EXPECT_FALSE(sums({0, 0}, {1}, Consistency::asynchronous()));
}

// Of hosts {0, 1}, {2, 3}: rank 3 goes away without a word; its host's sums are those of rank 2.
TEST(StoreHosts, AWorkerThatDiesHoldsNobodyBack) {
  harness::run_ranks_with_servers({0, 0, 1, 1}, {2}, [](Session& session) {
    KVStore kv = session.kvstore(KVStoreOptions().timeout(20s));
    std::vector<float> ones(70'000, 1), out(70'000);
    kv.init("w", view(ones));
    session.world().barrier().wait();
    if (session.rank() == 3) return;
    for (int clock = 0; clock < 3; ++clock) {
      kv.push("w", view(ones)).wait();
      kv.pull("w", view(out)).wait();
      EXPECT_EQ(out, std::vector<float>(70'000, 3));
      kv.clock();
    }
  });
}

// The first worker of a host takes the store of the second with it, and nobody else's.
TEST(StoreHosts, ADeadRelayIsNamed) {
  std::unique_ptr<KVStore> unfinished;  // whose session has ended, as if its process had
  harness::run_ranks_with_servers({0, 0, 1, 1}, {2}, [&](Session& session) {
    std::vector<float> ones(70'000, 1), out(70'000);
    auto kv = std::make_unique<KVStore>(session.kvstore(KVStoreOptions().timeout(20s)));
    kv->init("w", view(ones));
    kv->pull("w", view(out)).wait();
    session.world().barrier().wait();
    if (session.rank() == 2) {
      unfinished = std::move(kv);
      return;
    }
    try {
      for (int clock = 0; clock < 3; ++clock) {
        kv->push("w", view(ones)).wait();
        kv->pull("w", view(out)).wait();
        kv->clock();
      }
      EXPECT_NE(session.rank(), 3);
      EXPECT_EQ(out, std::vector<float>(70'000, 2));
    } catch (const Error& error) {
      EXPECT_EQ(session.rank(), 3) << error.what();
      EXPECT_EQ(error.code(), Code::kPeerLost);
      EXPECT_NE(std::string(error.what()).find("rank 2"), std::string::npos) << error.what();
    }
  });
}

// The relay's workers hear of it as the relay does, at once and again with every later call.
TEST(StoreHosts, ADeadServerIsNamed) {
  ThreadJob job = open_threads(harness::test_options(), {0, 0}, {1});
  event::NamedThread serving("server",
                             [links = job.servers[0]->links()] { (void)ps::run_server(links); });
  std::atomic<int> ready{0}, failed{0};
  std::vector<std::thread> workers;
  for (Session& session : job.sessions) {
    workers.emplace_back([&] {
      KVStore kv = session.kvstore(KVStoreOptions().timeout(20s));
      std::vector<float> ones(70'000, 1), out(70'000);
      kv.init("w", view(ones));
      kv.push("w", view(ones)).wait();
      kv.pull("w", view(out)).wait();
      kv.clock();
      ++ready;
      const auto start = std::chrono::steady_clock::now();
      try {
        for (;;) {
          kv.push("w", view(ones)).wait();
          kv.pull("w", view(out)).wait();
          kv.clock();
        }
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::kPeerLost);
        EXPECT_NE(std::string(error.what()).find("server 0"), std::string::npos) << error.what();
        ++failed;
      }
      EXPECT_THROW(kv.pull("w", view(out)).wait(), Error);
      EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
    });
  }
  while (ready < 2) std::this_thread::yield();
  std::this_thread::sleep_for(50ms);
  job.servers[0].reset();
  for (std::thread& each : workers) each.join();
  EXPECT_EQ(failed, 2);
}

}  // namespace
}  // namespace syncline::store
