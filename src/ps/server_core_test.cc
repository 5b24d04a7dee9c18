// ServerCore by hand: each request and each payload when the test says.
#include "ps/server_core.h"

#include <gtest/gtest.h>

#include <cstring>

#include "ps/slice_state.h"

namespace syncline::ps {
namespace {

class HandServer : public testing::Test {
 protected:
  void SetUp() override { open_all({}); }
  void open_all(const Rules& rules) {
    core = std::make_unique<ServerCore>(2, 0);
    for (int w = 0; w < 2; ++w) ask(w, RequestKind::kOpen, encode(rules));
    core->take_actions();
  }
  static std::vector<std::byte> message(Request request, std::span<const std::byte> body) {
    request.inlined = static_cast<std::uint32_t>(body.size());
    std::vector<std::byte> bytes(kRequestHeaderBytes);
    encode(request, std::span<std::byte, kRequestHeaderBytes>(bytes.data(), kRequestHeaderBytes));
    bytes.insert(bytes.end(), body.begin(), body.end());
    return bytes;
  }
  Status send(int worker, const Request& request, std::span<const std::byte> body = {}) {
    return core->on_request(worker, message(request, body));
  }
  Request of(RequestKind kind, std::uint64_t clock = 0) {
    Request request;
    request.kind = kind;
    request.key = 1;
    request.clock = clock;
    request.tag = next_tag++;
    return request;
  }
  void ask(int worker, RequestKind kind, std::span<const std::byte> body = {},
           std::uint64_t clock = 0) {
    EXPECT_TRUE(send(worker, of(kind, clock), body).ok());
  }
  KeyDescription describe(std::uint64_t count) {
    KeyDescription key;
    key.name = "w";
    key.key = 1;
    key.count = count;
    key.slices = {{0, static_cast<std::size_t>(count), 0}};
    return key;
  }
  // A key of one f32 with the value 0.
  void make_key() {
    ask(0, RequestKind::kCreate, encode(describe(1)));
    EXPECT_TRUE(push(0, 0, 0, RequestKind::kAssign).ok());
    core->take_actions();
  }
  void make_table(std::uint64_t dim = 1) {
    KeyDescription key = describe(dim);
    key.slices.clear();
    key.table = true;
    ask(0, RequestKind::kCreate, encode(key));
  }
  Status push(int worker, float value, std::uint64_t clock = 0,
              RequestKind kind = RequestKind::kPush) {
    Request request = of(kind, clock);
    request.count = 1;
    return send(worker, request, std::as_bytes(std::span(&value, 1)));
  }
  // Announces a push; its payload is to come.
  std::uint64_t announce(int worker, std::uint64_t clock = 0) {
    Request request = of(RequestKind::kPush, clock);
    request.count = 1;
    request.separate = true;
    EXPECT_TRUE(send(worker, request).ok());
    const auto& receives = (last = core->take_actions()).receives;
    return receives.empty() ? 0 : receives.front().id;
  }
  void arrive(std::uint64_t id, float value) {
    std::memcpy(last.receives.front().into.get(), &value, sizeof value);
    core->on_payload(id, true);
  }
  static float number(const Reply& reply) {
    float value = 0;
    std::memcpy(&value, reply.data.get(), sizeof value);
    return value;
  }
  // The answer to a pull; -1: none yet.
  float pull(int worker, std::uint64_t clock = 0) {
    ask(worker, RequestKind::kPull, {}, clock);
    const Actions actions = core->take_actions();
    return actions.replies.empty() ? -1 : number(actions.replies.back());
  }
  static Code refusal(const Actions& actions) {
    if (actions.replies.empty() || actions.replies.front().tag != error_tag(0)) return Code::kOk;
    const Reply& note = actions.replies.front();
    return decode_error({note.data.get(), note.bytes}).value().code;
  }

  std::unique_ptr<ServerCore> core;
  std::int32_t next_tag = first_reply_tag(0);
  Actions last;
};

TEST_F(HandServer, LookupWaitsForPublish) {
  const std::string name = "w";
  const auto body = std::as_bytes(std::span(name));
  ask(1, RequestKind::kLookup, body);
  EXPECT_TRUE(core->take_actions().replies.empty());
  const auto key = encode(describe(1));
  ask(0, RequestKind::kPublish, key);
  auto actions = core->take_actions();
  ASSERT_EQ(actions.replies.size(), 1u);
  EXPECT_EQ(actions.replies[0].bytes, key.size());
  ask(1, RequestKind::kLookup, body);
  EXPECT_EQ(core->take_actions().replies.size(), 1u);
}

TEST_F(HandServer, OnlyWorkerZeroMakesKeys) {
  const auto key = encode(describe(1));
  EXPECT_EQ(send(1, of(RequestKind::kCreate), key).code(), Code::kCorrupt);
  EXPECT_EQ(send(1, of(RequestKind::kPublish), key).code(), Code::kCorrupt);
  make_key();
  EXPECT_EQ(push(1, 5, 0, RequestKind::kAssign).code(), Code::kCorrupt);
  EXPECT_EQ(push(0, 5, 0, RequestKind::kAssign).code(), Code::kCorrupt) << "it has a value";
  EXPECT_EQ(pull(1), 0);
}

TEST_F(HandServer, OptionsAndOptimisersMustAgree) {
  Rules other;
  other.bound = 3;
  ask(1, RequestKind::kOpen, encode(other));
  EXPECT_EQ(refusal(core->take_actions()), Code::kMismatch);
  ask(0, RequestKind::kOptimizer, encode(optim::Sgd(1)));
  ask(1, RequestKind::kOptimizer, encode(optim::Sgd(1)));
  EXPECT_EQ(refusal(core->take_actions()), Code::kOk);
  ask(1, RequestKind::kOptimizer, encode(optim::Sgd(2)));  // a second one in the same clock
  EXPECT_TRUE(core->take_actions().replies.empty());
  ask(0, RequestKind::kOptimizer, encode(optim::Sgd(3)));  // is the same for all
  EXPECT_EQ(refusal(core->take_actions()), Code::kMismatch);
  ask(1, RequestKind::kOptimizer, encode(optim::RowwiseAdagrad()), 1);
  EXPECT_EQ(refusal(core->take_actions()), Code::kInvalidArgument) << "it has no dense step";
}

TEST_F(HandServer, ARefusedPushIsReceivedAllTheSame) {
  make_key();
  EXPECT_TRUE(push(0, 1).ok());
  ask(0, RequestKind::kPull);
  const std::uint64_t id = announce(0);
  ASSERT_NE(id, 0u);
  EXPECT_EQ(refusal(last), Code::kFailedPrecondition);
  EXPECT_EQ(core->expected_bytes(0), 4u);
  arrive(id, 100);
  EXPECT_TRUE(push(1, 2).ok());
  EXPECT_EQ(pull(1), 3) << "the late one is not in it";
}

// No round of it is open that would tell: only the worker's clock does.
TEST_F(HandServer, APushOfAnEndedClockIsLate) {
  make_key();
  ask(0, RequestKind::kClock, {}, 1);
  EXPECT_TRUE(push(0, 5, 0).ok());
  EXPECT_EQ(refusal(core->take_actions()), Code::kFailedPrecondition);
  EXPECT_EQ(push(0, 5, 2 + ServerCore::kClocksAheadMax).code(), Code::kCorrupt);
}

TEST_F(HandServer, WhoHasLeftMayNotPush) {
  make_key();
  ask(1, RequestKind::kLeave);
  EXPECT_TRUE(push(1, 5).ok());
  EXPECT_EQ(refusal(core->take_actions()), Code::kFailedPrecondition);
  EXPECT_TRUE(push(0, 2).ok());
  EXPECT_EQ(pull(0), 2);
}

TEST_F(HandServer, AWorkerGoneInTheMiddleOfAPayload) {
  make_key();
  EXPECT_TRUE(push(0, 1).ok());
  const std::uint64_t id = announce(1);
  EXPECT_EQ(pull(0), -1);
  core->on_gone(1);
  const Actions actions = core->take_actions();
  ASSERT_EQ(actions.replies.size(), 1u);
  EXPECT_EQ(number(actions.replies[0]), 1);
  core->on_payload(id, false);
  EXPECT_EQ(core->expected_bytes(1), 0u);
  EXPECT_FALSE(core->is_over());
  ask(0, RequestKind::kLeave);
  EXPECT_TRUE(core->is_over());
}

TEST_F(HandServer, FlushWaitsForEarlierPayloadsOnly) {
  make_key();
  const std::uint64_t first = announce(0);
  const Buffer into = last.receives.front().into;
  ask(0, RequestKind::kFlush);
  const std::uint64_t second = announce(0);
  EXPECT_TRUE(last.replies.empty());
  core->on_payload(first, true);
  const Actions actions = core->take_actions();
  ASSERT_EQ(actions.replies.size(), 1u) << "the second one came after it";
  EXPECT_EQ(actions.replies[0].bytes, 1u) << "an empty answer is a refusal";
  core->on_payload(second, true);
}

TEST_F(HandServer, FastWorkersAreAhead) {
  ask(0, RequestKind::kClock, {}, 1);
  EXPECT_FALSE(core->is_ahead(0, 0));
  ask(0, RequestKind::kClock, {}, 2);
  EXPECT_TRUE(core->is_ahead(0, 0));
  ask(1, RequestKind::kClock, {}, 1);
  EXPECT_FALSE(core->is_ahead(0, 0));
  Rules huge;
  huge.bound = kUnbounded - 1;
  open_all(huge);
  ask(1, RequestKind::kClock, {}, 1);
  ask(0, RequestKind::kClock, {}, 2);
  EXPECT_FALSE(core->is_ahead(0, 0)) << "that far nobody gets";
}

TEST_F(HandServer, KindsMustFitTheirKey) {
  make_table();
  for (const auto kind : {RequestKind::kPush, RequestKind::kAssign}) {
    EXPECT_EQ(push(0, 1, 0, kind).code(), Code::kCorrupt);
  }
  EXPECT_EQ(send(0, of(RequestKind::kPull)).code(), Code::kCorrupt);
  SetUp();
  make_key();
  EXPECT_EQ(push(0, 1, 0, RequestKind::kPushRows).code(), Code::kCorrupt);
  const std::int64_t id = 1;
  Request rows = of(RequestKind::kPullRows);
  rows.count = 1;
  EXPECT_EQ(send(0, rows, std::as_bytes(std::span(&id, 1))).code(), Code::kCorrupt);
}

TEST_F(HandServer, ASliceWithoutAValue) {
  ask(0, RequestKind::kCreate, encode(describe(1)));
  EXPECT_EQ(send(1, of(RequestKind::kPull)).code(), Code::kCorrupt);
  EXPECT_EQ(push(1, 1).code(), Code::kCorrupt);
}

TEST_F(HandServer, NobodyAsksForMoreThanItMay) {
  make_table(1000);
  Request rows = of(RequestKind::kPushRows);
  rows.separate = true;
  rows.count = 1u << 31;
  EXPECT_EQ(send(1, rows).code(), Code::kCorrupt);
  std::vector<std::int64_t> ids(2000);
  Request pull = of(RequestKind::kPullRows);
  pull.count = ids.size();
  EXPECT_EQ(send(1, pull, std::as_bytes(std::span(ids))).code(), Code::kCorrupt)
      << "8 MB of rows for 16 KB of ids";
}

TEST_F(HandServer, WaitingRequestsAreBounded) {
  const std::vector<std::byte> name(1000);
  Code refused = Code::kOk;
  for (int i = 0; i < 100'000 && refused == Code::kOk; ++i) {
    ask(1, RequestKind::kLookup, name);
    refused = refusal(core->take_actions());
  }
  EXPECT_EQ(refused, Code::kExhausted);
  core->on_gone(1);
  EXPECT_EQ(core->is_over(), false);
}

// Worker 1 leaves, and two rounds close at once.
TEST_F(HandServer, EachClockHasItsValueWhenSomeoneLeaves) {
  make_key();
  for (std::uint64_t clock = 0; clock < 2; ++clock) {
    EXPECT_TRUE(push(0, static_cast<float>(10 + clock), clock).ok());
    ask(0, RequestKind::kClock, {}, clock + 1);
    EXPECT_EQ(pull(0, clock + 1), -1);
  }
  ask(1, RequestKind::kLeave);
  const Actions actions = core->take_actions();
  ASSERT_EQ(actions.replies.size(), 2u);
  EXPECT_EQ(number(actions.replies[0]), 10);
  EXPECT_EQ(number(actions.replies[1]), 11);
}

TEST_F(HandServer, AStoreThatAllHaveLeftHoldsNothing) {
  make_key();
  const std::uint64_t id = announce(1);
  ask(0, RequestKind::kLeave);
  ask(1, RequestKind::kLeave);
  core->on_payload(id, true);
  core->take_actions();
  ask(0, RequestKind::kStats);
  const Actions actions = core->take_actions();
  ASSERT_EQ(actions.replies.size(), 1u);
  const auto stats = decode_stats({actions.replies[0].data.get(), actions.replies[0].bytes});
  EXPECT_EQ(stats->keys, 0u);
}

// A state waits as a pull does, and gives another server the same slice.
TEST_F(HandServer, StatesGoToOtherServers) {
  ask(0, RequestKind::kOptimizer, encode(optim::Sgd(0.5).momentum(0.5)));
  make_key();
  EXPECT_TRUE(push(0, 4).ok());
  ask(0, RequestKind::kState);
  EXPECT_TRUE(core->take_actions().replies.empty()) << "worker 1 may still push";
  ask(1, RequestKind::kClock, {}, 1);
  const auto replies = core->take_actions().replies;
  ASSERT_EQ(replies.size(), 1U);
  const std::vector<std::byte> state(replies[0].data.get(),
                                     replies[0].data.get() + replies[0].bytes);
  ASSERT_EQ(state.size(), kStateHeaderBytes + 2 * sizeof(float));
  EXPECT_EQ(decode_state(state)->steps, 1U);

  open_all({});
  ask(0, RequestKind::kOptimizer, encode(optim::Sgd(0.5).momentum(0.5)));
  ask(0, RequestKind::kCreate, encode(describe(1)));
  Request restore = of(RequestKind::kRestore);
  restore.count = state.size();
  EXPECT_TRUE(send(0, restore, state).ok());
  EXPECT_EQ(pull(1), -2);
}

// Neither lengths that are impossible nor states of something else change anything.
TEST_F(HandServer, StatesThatDoNotFitAreRefused) {
  ask(0, RequestKind::kCreate, encode(describe(1)));
  Request restore = of(RequestKind::kRestore);
  restore.count = std::uint64_t{1} << 40;
  restore.separate = true;
  EXPECT_EQ(send(0, restore).code(), Code::kCorrupt);
  std::vector<std::byte> state(kStateHeaderBytes + 2 * sizeof(float));
  encode(StateHeader{}, state);
  restore = of(RequestKind::kRestore);
  restore.count = state.size();
  EXPECT_TRUE(send(0, restore, state).ok());
  const auto notes = core->take_actions().replies;
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(decode_error({notes[0].data.get(), notes[0].bytes})->code, Code::kCorrupt);
  EXPECT_EQ(send(1, restore, state).code(), Code::kCorrupt) << "only worker 0 makes keys";
  EXPECT_TRUE(push(0, 3, 0, RequestKind::kAssign).ok()) << "it has no value yet";
}

// Urgent requests overtake the news that clocks have ended: a pull gets the value of its clock even
// where a later round closes before these come.
TEST_F(HandServer, PullsSeeNoLaterClockWhereNewsAreLate) {
  make_key();
  core->on_gone(1);
  EXPECT_TRUE(push(0, 5).ok());
  ask(0, RequestKind::kClock, {}, 1);
  core->take_actions();
  EXPECT_EQ(pull(0, 3), -1) << "clocks 1 and 2 may not be over";
  EXPECT_TRUE(push(0, 7, 4).ok());
  ask(0, RequestKind::kPull, {}, 4);
  const auto replies = core->take_actions().replies;
  ASSERT_EQ(replies.size(), 2U);
  EXPECT_EQ(number(replies[0]), 5);
  EXPECT_EQ(number(replies[1]), 7);
}

// push_pull() is in place: an answer that needs no payload still waits for its own.
TEST_F(HandServer, AnswersDoNotOvertakeThePayloadTheyReplace) {
  Rules rules;
  rules.bound = 1;
  open_all(rules);
  make_key();
  Request request = of(RequestKind::kPush);
  request.count = 1;
  request.separate = request.answers = true;
  EXPECT_TRUE(send(0, request).ok());
  last = core->take_actions();
  ASSERT_EQ(last.receives.size(), 1U);
  EXPECT_TRUE(last.replies.empty());
  arrive(last.receives.front().id, 3);
  EXPECT_EQ(core->take_actions().replies.size(), 1U);
}

// A payload that comes after its clock has ended everywhere still steps by that clock's optimiser.
TEST_F(HandServer, PayloadsKeepTheirOptimizer) {
  for (const std::uint64_t bound : {std::uint64_t{0}, kUnbounded}) {
    Rules rules;
    rules.bound = bound;
    open_all(rules);
    for (int w = 0; w < 2; ++w) ask(w, RequestKind::kOptimizer, encode(optim::Sgd(10)));
    make_key();
    const std::uint64_t id = announce(0);
    for (int w = 0; w < 2; ++w) ask(w, RequestKind::kOptimizer, encode(optim::Sgd(1)), 1);
    for (int w = 0; w < 2; ++w) ask(w, RequestKind::kClock, {}, 1);
    for (int w = 0; w < 2; ++w) ask(w, RequestKind::kOptimizer, encode(optim::Sgd(1)), 2);
    for (int w = 0; w < 2; ++w) ask(w, RequestKind::kClock, {}, 2);
    arrive(id, 3);
    core->take_actions();
    EXPECT_EQ(pull(0, 2), -30) << bound;
  }
}

// Two servers with a slice each of one tensor, by hand.
class TwoServers : public testing::Test {
 protected:
  static constexpr std::size_t kElements = 2 * kNormPiece;

  void SetUp() override {
    for (int s = 0; s < 2; ++s) {
      cores.push_back(std::make_unique<ServerCore>(2, s, 2));
      for (int w = 0; w < 2; ++w) ask(s, w, RequestKind::kOpen, encode(Rules{}));
      ask(s, 0, RequestKind::kOptimizer, encode(optim::Lars(0.1)));
    }
    KeyDescription key;
    key.name = "w";
    key.key = 1;
    key.count = kElements;
    key.slices = {{0, kNormPiece, 0}, {kNormPiece, kNormPiece, 1}};
    for (int s = 0; s < 2; ++s) {
      ask(s, 0, RequestKind::kCreate, encode(key));
      give(s, 0, RequestKind::kAssign, 0, 1);
      cores[static_cast<std::size_t>(s)]->take_actions();
    }
  }
  ServerCore& core(int server) { return *cores[static_cast<std::size_t>(server)]; }
  Status send(int server, int worker, Request request, std::span<const std::byte> body) {
    request.key = 1;
    request.slice = static_cast<std::uint32_t>(server);
    request.tag = first_reply_tag(0);
    request.inlined = static_cast<std::uint32_t>(body.size());
    std::vector<std::byte> bytes(kRequestHeaderBytes);
    encode(request, std::span<std::byte, kRequestHeaderBytes>(bytes.data(), kRequestHeaderBytes));
    bytes.insert(bytes.end(), body.begin(), body.end());
    return core(server).on_request(worker, bytes);
  }
  void ask(int server, int worker, RequestKind kind, std::span<const std::byte> body = {},
           std::uint64_t clock = 0) {
    Request request;
    request.kind = kind;
    request.clock = clock;
    EXPECT_TRUE(send(server, worker, request, body).ok());
  }
  void give(int server, int worker, RequestKind kind, std::uint64_t clock, float value) {
    Request request;
    request.kind = kind;
    request.clock = clock;
    request.count = kNormPiece;
    const std::vector<float> values(kNormPiece, value);
    EXPECT_TRUE(send(server, worker, request, std::as_bytes(std::span(values))).ok());
  }
  // All workers end the clock on this server.
  void end_clock(int server, std::uint64_t clock) {
    for (int w = 0; w < 2; ++w) ask(server, w, RequestKind::kClock, {}, clock + 1);
  }
  // Hands over what the servers tell each other until there is nothing; the replies of server 0.
  std::vector<Reply> exchange() {
    std::vector<Reply> replies;
    for (bool moved = true; moved;) {
      moved = false;
      for (int s = 0; s < 2; ++s) {
        Actions actions = core(s).take_actions();
        for (const Tell& tell : actions.tells) {
          EXPECT_TRUE(core(tell.server).on_sums(s, tell.bytes).ok());
          moved = true;
        }
        if (s == 0)
          std::move(actions.replies.begin(), actions.replies.end(), std::back_inserter(replies));
      }
    }
    return replies;
  }
  static float first(const Reply& reply) {
    float value = 0;
    std::memcpy(&value, reply.data.get(), sizeof value);
    return value;
  }
  // One step of the whole tensor, gradients as given for its halves.
  static float stepped(float left, float right) {
    std::vector<float> weights(kElements, 1), momentum(kElements), gradient(kElements, left);
    std::fill(gradient.begin() + kNormPiece, gradient.end(), right);
    const Slice slice{kElements, weights.data(), {momentum.data()}, gradient.data()};
    std::vector<SquareSums> sums;
    advance(optim::Lars(0.1), 1, slice, sums);
    apply(optim::Lars(0.1), 1, trust_ratio(optim::Lars(0.1), sums), slice);
    return weights[0];
  }

  std::vector<std::unique_ptr<ServerCore>> cores;
};

TEST_F(TwoServers, StepWithTheNormsOfTheWholeTensor) {
  for (int s = 0; s < 2; ++s) {
    give(s, 0, RequestKind::kPush, 0, s == 0 ? 1.0F : 3.0F);
    end_clock(s, 0);
  }
  ask(0, 0, RequestKind::kPull, {}, 1);
  const auto replies = exchange();
  ASSERT_EQ(replies.size(), 1U);
  EXPECT_EQ(first(replies[0]), stepped(1, 3));
}

// A worker died between its slices: the other slice says that it does not step.
TEST_F(TwoServers, ASliceThatNobodyPushedHoldsNobodyBack) {
  give(0, 0, RequestKind::kPush, 0, 1);
  end_clock(0, 0);
  ask(0, 0, RequestKind::kPull, {}, 1);
  EXPECT_TRUE(exchange().empty()) << "the other half may still come";
  end_clock(1, 0);
  const auto replies = exchange();
  ASSERT_EQ(replies.size(), 1U);
  EXPECT_NE(first(replies[0]), 1.0F);
}

// The other half waits for a clock that this one passes on its way to the next.
TEST_F(TwoServers, ASliceThatSkipsAClockSaysSo) {
  give(1, 0, RequestKind::kPush, 0, 1);
  end_clock(1, 0);
  EXPECT_TRUE(exchange().empty());
  give(0, 0, RequestKind::kPush, 1, 1);
  give(1, 0, RequestKind::kPush, 1, 1);
  for (int w = 0; w < 2; ++w) ask(0, w, RequestKind::kClock, {}, 2);  // both clocks at once
  end_clock(1, 1);
  ask(0, 0, RequestKind::kPull, {}, 2);
  EXPECT_EQ(exchange().size(), 1U);
}

TEST_F(TwoServers, PullsEndWithTheServerTheyWaitFor) {
  give(0, 0, RequestKind::kPush, 0, 1);
  end_clock(0, 0);
  ask(0, 0, RequestKind::kPull, {}, 1);
  EXPECT_TRUE(exchange().empty());
  core(0).on_server_gone(1);
  auto replies = exchange();
  ASSERT_EQ(replies.size(), 2U);  // the note, then the empty answer
  EXPECT_EQ(decode_error({replies[0].data.get(), replies[0].bytes})->code, Code::kPeerLost);
  ask(0, 1, RequestKind::kPull, {}, 1);
  EXPECT_EQ(exchange().size(), 2U);
}

TEST_F(TwoServers, SumsThatNobodyCanHaveSentAreRefused) {
  const auto tell = [&](int from, const SumsNote& note) {
    return core(0).on_sums(from, encode(note)).code();
  };
  EXPECT_EQ(core(0).on_sums(1, std::vector<std::byte>(5)).code(), Code::kCorrupt);
  EXPECT_EQ(tell(1, {0, 1, 0, 0, {}}), Code::kCorrupt) << "not its slice";
  EXPECT_EQ(tell(1, {0, 1, 7, 0, {}}), Code::kCorrupt) << "no slice";
  EXPECT_EQ(tell(1, {0, 9, 1, 0, {}}), Code::kOk) << "of a key that has gone";
  EXPECT_EQ(tell(1, {0, 1, 1, 0, {}}), Code::kOk);
  EXPECT_EQ(tell(1, {0, 1, 1, 0, {}}), Code::kCorrupt) << "twice";
  EXPECT_EQ(tell(1, {0, 1, 1, 1, {}}), Code::kOk);
  EXPECT_EQ(tell(1, {0, 1, 1, 2, {}}), Code::kCorrupt) << "further ahead than it can be";
}

}  // namespace
}  // namespace syncline::ps
