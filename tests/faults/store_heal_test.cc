// A store over a link that loses acknowledgements, repeats frames and breaks. Case PS-10, first
// part.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "syncline/kvstore.h"
#include "tests/harness/healing_pair.h"

namespace syncline::faults {
namespace {

using harness::HealingPair;

// Rank 1 dials, through the proxy: its pushes to rank 0's key are repeated, its acknowledgements of
// rank 0's pushes to its own get lost.
TEST(StoreHeal, EachPushCountsOnce) {
  constexpr int kPushes = 100;
  HealingPair pair;
  pair.proxy().drop_acks_every = 5;
  pair.proxy().repeat_every = 7;
  const auto body = [&](int rank) {
    Session& session = pair.session(rank);
    KVStore kv = session.kvstore(KVStoreOptions().consistency(Consistency::asynchronous()));
    std::vector<float> value(1, 0), one(1, 1);
    kv.init("0", {value.data(), value.size()}, 0);
    kv.init("1", {value.data(), value.size()}, 1);
    for (const int pusher : {1, 0}) {  // in turns: what comes back is acknowledgements alone
      for (int i = 0; rank == pusher && i < kPushes; ++i) {
        kv.push(std::to_string(1 - rank), {one.data(), one.size()});
        if (i % 25 == 0) pair.proxy().cut();
        if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(3));
      }
      kv.flush();
      session.world().barrier().wait();
    }
    for (const char* key : {"0", "1"}) {
      kv.pull(key, {value.data(), value.size()}).wait();
      EXPECT_EQ(value[0], kPushes) << "rank " << rank << ", key " << key;
    }
    kv.finish();
  };
  std::thread other(body, 1);  // NOLINT: a test's second rank
  body(0);
  other.join();
  EXPECT_GT(pair.proxy().acks_dropped(), 0U);
  EXPECT_GT(pair.proxy().repeats(), 10U);
  EXPECT_GT(pair.link(0).stats().duplicates, 0U);
  EXPECT_GE(pair.proxy().connections(), 4U);
  std::printf("%llu acknowledgements dropped, %llu frames repeated, %llu connections\n",
              static_cast<unsigned long long>(pair.proxy().acks_dropped()),
              static_cast<unsigned long long>(pair.proxy().repeats()),
              static_cast<unsigned long long>(pair.proxy().connections()));
}

}  // namespace
}  // namespace syncline::faults
