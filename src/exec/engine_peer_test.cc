// What a peer sent before it died, or between two calls, counts.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "exec/engine.h"
#include "plan/generators.h"
#include "wire/messages.h"

namespace syncline::exec {
namespace {

class SteppedClock final : public Clock {
 public:
  Nanos now() const override { return now_; }
  void advance(Nanos span) { now_ += span; }

 private:
  Nanos now_ = kSecond;
};

// A peer that sends one frame, seen from the first progress() on, and may be dead by then.
class OneFrameEndpoint final : public transport::Endpoint {
 public:
  OneFrameEndpoint(transport::FrameType type, std::vector<std::byte> payload, bool dies)
      : payload_(std::move(payload)), unread_(!payload_.empty()), dies_(dies) {
    frame_.header.type = type;
    frame_.header.comm = 1;
    // Data is of the first call, news of one before it.
    frame_.header.op = type == transport::FrameType::kData ? 1 : 0;
    frame_.header.length = static_cast<std::uint32_t>(payload_.size());
    frame_.payload = payload_.data();
  }
  transport::SendResult try_send(const transport::FrameHeader&, const void*) override {
    return transport::SendResult::kAccepted;
  }
  const transport::Frame* front() override { return seen_ && unread_ ? &frame_ : nullptr; }
  void pop() override { unread_ = false; }
  void progress(Nanos) override { seen_ = true; }
  transport::Armed arm() override { return transport::Armed::kYes; }
  void disarm() override {}
  Nanos last_heard() const override { return kSecond; }
  bool has_unsent() const override { return false; }
  void close() override {}
  Status status() const override {
    return seen_ && dies_ ? Status(Code::kPeerLost, "rank 1 died").with_peer(1) : Status();
  }
  const char* transport_name() const override { return "one frame"; }

 private:
  std::vector<std::byte> payload_;
  bool unread_;
  bool dies_;
  bool seen_ = false;
  transport::Frame frame_;
};

// Rank 0 of two, stepped; the peer is a OneFrameEndpoint.
class EnginePeer : public ::testing::Test {
 protected:
  void meet(transport::FrameType type, std::vector<std::byte> payload, bool dies) {
    EngineOptions options;
    options.stepped_by = &clock_;
    engine_ = std::make_shared<Engine>(std::move(options));
    Channel* const channel = engine_->add_channel(
        1, "rank 1", std::make_unique<OneFrameEndpoint>(type, std::move(payload), dies));
    engine_->start();
    group_->id = 1;
    group_->peers = {nullptr, channel};
    group_->world_ranks = {0, 1};
    engine_->add_group(group_);
  }
  void TearDown() override { engine_->stop(0); }

  void step(int times) {
    for (int i = 0; i < times; ++i) {
      clock_.advance(2 * kMillisecond);
      engine_->step();
    }
  }
  // An all_reduce of one element.
  Work submit() {
    OperationRequest request;
    request.group = group_.get();
    request.program = program_.get();
    request.in = &in_;
    request.out = &out_;
    request.block_count = 1;
    return engine_->submit(std::move(request));
  }
  Status reduce() {
    const Work work = submit();
    step(10);
    EXPECT_TRUE(work.done());
    return work.status();
  }

  SteppedClock clock_;
  std::shared_ptr<Engine> engine_;
  const std::shared_ptr<Group> group_ = std::make_shared<Group>();
  const std::shared_ptr<const Program> program_ =
      compile(plan::find_generator("one_shot")->make(Collective::kAllReduce, 2, 0), 0);
  const float in_ = 1;
  float out_ = 0;
};

std::vector<std::byte> bytes_of(float value) {
  std::vector<std::byte> bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

TEST_F(EnginePeer, DataThatArrivedBeforeItsDeathIsUsed) {
  meet(transport::FrameType::kData, bytes_of(2), true);
  const Status status = reduce();
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(out_, 3.0f);
}

TEST_F(EnginePeer, DataThatIsThereEndsTheCallAtOnce) {
  meet(transport::FrameType::kData, bytes_of(2), false);
  step(1);
  const Work work = submit();
  EXPECT_TRUE(work.done());
  EXPECT_EQ(out_, 3.0f);
}

TEST_F(EnginePeer, DeathWithoutDataEndsTheCall) {
  meet(transport::FrameType::kData, {}, true);
  EXPECT_EQ(reduce().code(), Code::kPeerLost);
}

// As for the root of a broadcast, which has sent and gone on.
TEST_F(EnginePeer, DisagreementReportedBetweenCallsIsThatOfTheNextOne) {
  meet(transport::FrameType::kAbort,
       wire::encode(wire::AbortMessage{Code::kMismatch, 1, 1, "ranks disagree"}), false);
  step(5);
  EXPECT_EQ(reduce().code(), Code::kMismatch);
  EXPECT_EQ(reduce().code(), Code::kFailedPrecondition);
}

}  // namespace
}  // namespace syncline::exec
