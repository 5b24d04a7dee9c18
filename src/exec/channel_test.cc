// What a channel asks its endpoint, and how often.
#include "exec/channel.h"

#include <gtest/gtest.h>

#include <vector>

namespace syncline::exec {
namespace {

using transport::SendResult;

// Refuses frames longer than `room`.
class NarrowEndpoint final : public transport::Endpoint {
 public:
  SendResult try_send(const transport::FrameHeader& header, const void*) override {
    asked.push_back(header.length);
    return header.length > room ? SendResult::kWouldBlock : SendResult::kAccepted;
  }
  const transport::Frame* front() override {
    ++fronts;
    return nullptr;
  }
  void pop() override {}
  void progress(Nanos) override {}
  transport::Armed arm() override { return transport::Armed::kYes; }
  void disarm() override {}
  Nanos last_heard() const override { return 0; }
  bool has_unsent() const override { return false; }
  void close() override {}
  Status status() const override { return {}; }
  const char* transport_name() const override { return "narrow"; }

  std::size_t room = 0;
  std::vector<std::size_t> asked;
  int fronts = 0;
};

class ChannelQuestions : public ::testing::Test {
 protected:
  ChannelQuestions() {
    auto endpoint = std::make_unique<NarrowEndpoint>();
    end_ = endpoint.get();
    channel_.endpoint = std::move(endpoint);
  }
  SendResult send(std::uint32_t length, std::uint64_t pass) {
    transport::FrameHeader header;
    header.length = length;
    return channel_.try_send(header, nullptr, pass);
  }

  Channel channel_;
  NarrowEndpoint* end_ = nullptr;
};

TEST_F(ChannelQuestions, WhatWasRefusedIsNotAskedAgainInThePass) {
  end_->room = 10;
  EXPECT_EQ(send(100, 1), SendResult::kWouldBlock);
  EXPECT_EQ(send(100, 1), SendResult::kWouldBlock);
  EXPECT_EQ(send(200, 1), SendResult::kWouldBlock);
  EXPECT_EQ(end_->asked, std::vector<std::size_t>({100}));
  EXPECT_EQ(send(10, 1), SendResult::kAccepted) << "a shorter one may have room";
  EXPECT_EQ(send(50, 1), SendResult::kWouldBlock);
  EXPECT_EQ(end_->asked, std::vector<std::size_t>({100, 10, 50}));
  EXPECT_EQ(send(60, 1), SendResult::kWouldBlock);
  EXPECT_EQ(end_->asked.size(), 3u);
}

TEST_F(ChannelQuestions, TheNextPassAsksAgain) {
  EXPECT_EQ(send(100, 1), SendResult::kWouldBlock);
  end_->room = 1000;
  EXPECT_EQ(send(100, 1), SendResult::kWouldBlock);
  EXPECT_EQ(send(100, 2), SendResult::kAccepted);
}

TEST_F(ChannelQuestions, TheFrontIsAskedForOnceAPass) {
  channel_.front(1);
  channel_.front(1);
  EXPECT_EQ(end_->fronts, 1);
  channel_.front(2);
  EXPECT_EQ(end_->fronts, 2);
}

}  // namespace
}  // namespace syncline::exec
