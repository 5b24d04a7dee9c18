// Keys: how they come to be, and errors that leave the store as it was. Cases PS-01, PS-02, PS-04.
#include <thread>

#include "tests/conformance/each_wiring.h"
#include "tests/store/views.h"

namespace syncline::store {
namespace {

using conformance::code_of;
using conformance::EachWiring;
using namespace std::chrono_literals;

class StoreKeys : public EachWiring {};
SYNCLINE_ON_EACH_STORE(StoreKeys);

// PS-01: a pull straight after init, keys made after pushes, a key that never comes.
TEST_P(StoreKeys, PullRightAfterInit) {
  run(2, [](Session& session) {
    KVStore kv = session.kvstore(KVStoreOptions().timeout(3s));
    if (session.rank() == 0) std::this_thread::sleep_for(300ms);
    std::vector<float> two(6, 2), out(6);
    kv.init("3", view(two));
    kv.pull("3", view(out)).wait();
    EXPECT_EQ(out, two);
    kv.push("3", view(two)).wait();
    std::vector<float> late{1, 2, 3}, got(3);
    kv.init("late", view(late));
    kv.pull("late", view(got)).wait();
    EXPECT_EQ(got, late);
    KVStore impatient = session.kvstore(KVStoreOptions().timeout(1000ms));
    try {
      impatient.pull("99", view(got)).wait();
      ADD_FAILURE() << "a key that nobody made";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kTimeout);
      EXPECT_NE(std::string(error.what()).find("key '99' not initialised"), std::string::npos)
          << error.what();
    }
    kv.clock();
    kv.pull("3", view(out)).wait();
    EXPECT_EQ(out, std::vector<float>(6, 4));
  });
}

// Each has its own keys, pulls and errors, also while pulls of the other wait.
TEST_P(StoreKeys, TwoStoresAtOnce) {
  run(2, [](Session& session) {
    KVStore first = session.kvstore(), second = session.kvstore();
    std::vector<float> ones(50'000, 1), twos(50'000, 2), out(50'000), other(50'000), one{1}, got(1);
    first.init("w", view(ones));
    second.init("w", view(twos));
    for (int step = 0; step < 20; ++step) {
      first.push("w", view(ones));
      Work waits = first.pull("w", view(out));
      second.push("w", view(twos));
      // Worker 1 gives the first store what worker 0 waits for when both have the second's.
      second.pull("w", view(other)).wait();
      EXPECT_EQ(other, std::vector<float>(50'000, 4));
      waits.wait();
      EXPECT_EQ(out, std::vector<float>(50'000, 2));
      first.clock();
      second.clock();
    }
    second.push("w", view(twos)).wait();
    second.pull("w", view(other)).wait();
    second.push("w", view(twos)).wait();  // after a pull of the same clock: an error
    first.pull("w", view(out)).wait();
    first.flush();
    EXPECT_EQ(code_of([&] { second.flush(); }), Code::kFailedPrecondition);
  });
}

TEST_P(StoreKeys, BoolsHaveNoMean) {
  run(1, [](Session& session) {
    KVStore kv = session.kvstore(KVStoreOptions().reduce(Reduce::kMeanBySamples));
    bool yes = true;
    EXPECT_EQ(code_of([&] { kv.init("b", {&yes, 1}); }), Code::kUnsupported);
    std::vector<float> one{1}, out(1);
    kv.init("w", view(one));
    kv.pull("w", view(out)).wait();
    EXPECT_EQ(out, one);
  });
}

// Who has run ahead in one store is waited for in another.
TEST_P(StoreKeys, AheadInOneStoreOnly) {
  run(2, [](Session& session) {
    KVStore far = session.kvstore(), near = session.kvstore();
    std::vector<float> ones(5000, 1), out(5000);
    far.init("w", view(ones));
    near.init("w", view(ones));
    const auto run_ahead = [&] {
      for (int clock = 0; clock < 6; ++clock) {
        far.push("w", view(ones)).wait();
        far.clock();
      }
    };
    if (session.rank() == 0) run_ahead();
    near.push("w", view(ones)).wait();
    near.pull("w", view(out)).wait();
    EXPECT_EQ(out, std::vector<float>(5000, 2));
    if (session.rank() == 1) run_ahead();
    far.pull("w", view(out)).wait();
    EXPECT_EQ(out, std::vector<float>(5000, 2));
  });
}

// PS-02: again with the same shape: nothing happens; with another: an error, the value stays.
TEST_P(StoreKeys, InitTwice) {
  run(2, [](Session& session) {
    KVStore kv = session.kvstore();
    std::vector<float> ones(2, 1), mine(2, static_cast<float>(session.rank())), out(2);
    kv.init("0", view(ones));
    kv.init("0", view(mine));
    std::vector<float> longer(3, 5);
    EXPECT_EQ(code_of([&] { kv.init("0", view(longer)); }), Code::kInvalidArgument);
    kv.pull("0", view(out)).wait();
    EXPECT_EQ(out, ones);
    std::vector<float> first(2, static_cast<float>(7 + session.rank()));
    kv.init("1", view(first));
    kv.pull("1", view(out)).wait();
    EXPECT_EQ(out, std::vector<float>(2, 7));
  });
}

// PS-04: many keys, unequal lengths, another order, no elements.
TEST_P(StoreKeys, ManyKeysOfUnequalLength) {
  run(2, [](Session& session) {
    KVStore kv = session.kvstore();
    for (int key = 0; key < 100; ++key) {
      std::vector<float> zero(static_cast<std::size_t>(key % 5), 0);
      kv.init(std::to_string(key), view(zero));
    }
    for (int key = 0; key < 100; ++key) {
      std::vector<float> value(static_cast<std::size_t>(key % 5), static_cast<float>(key));
      kv.push(std::to_string(key), view(value));
    }
    for (int key = 99; key >= 0; --key) {
      std::vector<float> out(static_cast<std::size_t>(key % 5));
      kv.pull(std::to_string(key), view(out)).wait();
      EXPECT_EQ(out, std::vector<float>(out.size(), static_cast<float>(2 * key)));
    }
  });
}

TEST_P(StoreKeys, BadCallsLeaveTheStoreAsItWas) {
  run(2, [](Session& session) {
    KVStore kv = session.kvstore();
    std::vector<float> w(4, 1), shorter(3), out(4);
    std::vector<double> wide(4);
    kv.init("w", view(w));
    EXPECT_EQ(code_of([&] { kv.push("w", view(shorter)); }), Code::kInvalidArgument);
    EXPECT_EQ(code_of([&] { kv.push("w", {wide.data(), 4}); }), Code::kInvalidArgument);
    EXPECT_EQ(code_of([&] { kv.pull("w", view(shorter)); }), Code::kInvalidArgument);
    EXPECT_EQ(code_of([&] { kv.init("", view(w)); }), Code::kInvalidArgument);
    EXPECT_EQ(code_of([&] { kv.init("x", view(w), 99); }), Code::kInvalidArgument);
    EXPECT_EQ(code_of([&] { kv.push_rows("w", {}, view(w)); }), Code::kInvalidArgument);
    EXPECT_EQ(code_of([&] { kv.set_optimizer(optim::Sgd(-1)); }), Code::kInvalidArgument);
    EXPECT_EQ(code_of([] { Consistency::parse("bounded_staleness"); }), Code::kInvalidArgument);
    kv.pull("w", view(out)).wait();
    EXPECT_EQ(out, w);
    kv.finish();
    EXPECT_EQ(code_of([&] { kv.pull("w", view(out)); }), Code::kFailedPrecondition);
  });
}

// A push after this worker has pulled the key in the same clock comes too late.
TEST_P(StoreKeys, PushAfterPullNeedsAClock) {
  run(2, [](Session& session) {
    KVStore kv = session.kvstore();
    std::vector<float> w(4, 1);
    kv.init("w", view(w));
    kv.push("w", view(w)).wait();
    kv.pull("w", view(w)).wait();
    kv.push("w", view(w)).wait();
    EXPECT_EQ(code_of([&] { kv.flush(); }), Code::kFailedPrecondition);
    kv.clock();
    kv.pull("w", view(w)).wait();
    EXPECT_EQ(w, std::vector<float>(4, 2));
  });
}

// Many refusals at once: each one's reason finds its call, whatever arrives first.
TEST_P(StoreKeys, EachRefusalSaysWhy) {
  run(2, [](Session& session) {
    KVStore kv = session.kvstore();
    kv.create_table("t", TableOptions().dim(1).rows(4));
    std::vector<std::int64_t> id{9};
    std::vector<float> row(1);
    std::vector<Work> works;
    for (int i = 0; i < 50; ++i) {
      works.push_back(kv.pull_rows("t", {id.data(), 1}, view(row)));
    }
    for (Work& work : works) EXPECT_EQ(code_of([&] { work.wait(); }), Code::kInvalidArgument);
  });
}

// Answers that come when nobody waits any more block none of the later ones.
TEST_P(StoreKeys, LateAnswersFillNothing) {
  run(2, [](Session& session) {
    KVStore kv = session.kvstore(KVStoreOptions().timeout(1000ms));
    std::vector<float> w(2'000'000, 1), out(w.size());
    kv.init("w", view(w));
    kv.push("w", view(w));
    if (session.rank() == 0) {
      const Status late = kv.pull("w", view(out)).wait_for(20s);
      EXPECT_EQ(late.code(), Code::kTimeout);
    }
    session.world().barrier().wait();
    kv.clock();
    session.world().barrier().wait();
    for (int again = 0; again < 50; ++again) {
      if (kv.pull("w", view(out)).wait_for(20s).ok()) break;
    }
    EXPECT_EQ(out, std::vector<float>(w.size(), 2));
  });
}

TEST_P(StoreKeys, DifferentOptionsAreAMismatch) {
  run(2, [](Session& session) {
    const auto rules =
        session.rank() == 0 ? Consistency::bulk_synchronous() : Consistency::bounded_staleness(2);
    int failed =
        code_of([&] { session.kvstore(KVStoreOptions().consistency(rules)); }) == Code::kMismatch
            ? 1
            : 0;
    session.world().all_reduce({&failed, 1}).wait();
    EXPECT_GE(failed, 1);
  });
}

}  // namespace
}  // namespace syncline::store
