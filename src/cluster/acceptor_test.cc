#include "cluster/acceptor.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "cluster/dialer.h"
#include "cluster/job_harness_test.h"

namespace syncline::cluster {
namespace {

using testing::HasSubstr;
using namespace testing_job;  // NOLINT

class ManualClock final : public Clock {
 public:
  Nanos now() const override { return now_; }
  void advance(Nanos by) { now_ += by; }

 private:
  Nanos now_ = kSecond;
};

class AcceptorTest : public testing::Test {
 protected:
  AcceptorTest() {
    AcceptorOptions options;
    options.handshake = config(0, 11);
    options.name = "data";
    options.log = lines_.sink();
    acceptor_ = std::make_unique<Acceptor>(
        poller_, clock_, std::move(place_.listener), options,
        [this](AuthenticatedSocket socket) { accepted_.push_back(std::move(socket)); });
  }
  static HandshakeConfig config(int rank, std::uint64_t incarnation) {
    HandshakeConfig out;
    out.key = key(7);
    out.rank = rank;
    out.world_size = 4;
    out.incarnation = incarnation;
    return out;
  }
  DialOptions dial_options() {
    DialOptions options;
    options.addresses = {place_.address};
    options.handshake = config(1, 22);
    options.handshake.peer_rank = 0;
    options.deadline = clock_.now() + 100 * kSecond;
    return options;
  }
  transport::tcp::Fd visit(const std::string& text = "") {
    auto fd = transport::tcp::connect_any({place_.address}, monotonic_now() + 5 * kSecond);
    EXPECT_TRUE(fd.ok()) << fd.status().to_string();
    if (!text.empty()) (void)::send(fd.value().get(), text.data(), text.size(), MSG_NOSIGNAL);
    return std::move(fd).value();
  }
  void step() {
    poller_.poll(kMillisecond);
    acceptor_->progress(clock_.now());
  }
  template <class Condition>
  void step_until(Condition condition) {
    const Nanos limit = monotonic_now() + 10 * kSecond;
    while (!condition() && monotonic_now() < limit) step();
    EXPECT_TRUE(condition());
  }
  // True if the other end closed in order or reset.
  static bool closed(const transport::tcp::Fd& fd) {
    char buffer[512];
    for (;;) {
      const ssize_t got = ::recv(fd.get(), buffer, sizeof buffer, 0);
      if (got > 0) continue;
      return got == 0 || errno == ECONNRESET;
    }
  }

  Place place_;
  ManualClock clock_;
  Lines lines_;
  event::Poller poller_;
  std::unique_ptr<Acceptor> acceptor_;
  std::vector<AuthenticatedSocket> accepted_;
};

TEST_F(AcceptorTest, HandsOutAuthenticatedSockets) {
  Dialer dialer(poller_, clock_, dial_options());
  step_until([&] {
    dialer.progress(clock_.now());
    return dialer.ended() && accepted_.size() == 1;
  });
  const auto socket = dialer.take();
  ASSERT_TRUE(socket.ok()) << socket.status().to_string();
  EXPECT_EQ(accepted_[0].peer_rank, 1);
  EXPECT_EQ(accepted_[0].peer_incarnation, 22u);
  EXPECT_EQ(socket.value().peer_incarnation, 11u);
  EXPECT_EQ(acceptor_->stats().refused, 0u);
}

TEST_F(AcceptorTest, OtherProtocolsAreClosedAtOnce) {
  for (const std::string& text :
       std::vector<std::string>{"GET / HTTP/1.0\r\n\r\n", "\x16\x03\x01", "\xff"}) {
    const auto fd = visit(text);
    step_until([&] { return closed(fd); });
  }
  EXPECT_EQ(acceptor_->stats().refused, 3u);
  EXPECT_EQ(acceptor_->half_open(), 0u);
  EXPECT_THAT(lines_.text(), HasSubstr("refused a connection from 127.0.0.1 on the data listener " +
                                       place_.address.to_string()));
}

TEST_F(AcceptorTest, SilenceEndsAfterTwoSeconds) {
  const auto fd = visit("SYNCL");
  step_until([&] { return acceptor_->half_open() == 1; });
  step();
  clock_.advance(kHandshakeLimit - kMillisecond);
  step();
  EXPECT_EQ(acceptor_->half_open(), 1u);
  clock_.advance(kMillisecond);
  step();
  EXPECT_EQ(acceptor_->half_open(), 0u);
  EXPECT_TRUE(closed(fd));
}

TEST_F(AcceptorTest, HalfOpenConnectionsAreBoundedAndRanksStillGetIn) {
  std::vector<transport::tcp::Fd> visitors;
  for (std::size_t i = 0; i < Acceptor::kHalfOpenMax; ++i) {
    visitors.push_back(visit(i % 2 == 0 ? "" : "SYNCLINE"));
  }
  step_until([&] { return acceptor_->half_open() == Acceptor::kHalfOpenMax; });
  const auto refused = visit();
  step_until([&] { return closed(refused); });
  EXPECT_EQ(acceptor_->half_open(), Acceptor::kHalfOpenMax);
  // A little later the oldest one without a hello makes room, whatever it began to say.
  clock_.advance(Acceptor::kHelloPatience);
  Dialer dialer(poller_, clock_, dial_options());
  step_until([&] {
    dialer.progress(clock_.now());
    return accepted_.size() == 1;
  });
  EXPECT_LE(acceptor_->half_open(), Acceptor::kHalfOpenMax);
}

// SEC-01: counted, and logged once.
TEST_F(AcceptorTest, FloodCostsOneLogLine) {
  for (int i = 0; i < 200; ++i) {
    const auto fd = visit("GET / HTTP/1.0\r\n\r\n");
    step_until([&] { return closed(fd); });
  }
  EXPECT_EQ(acceptor_->stats().refused, 200u);
  const std::string text = lines_.text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  clock_.advance(RefusalLog::kInterval);
  const auto fd = visit("x");
  step_until([&] { return closed(fd); });
  EXPECT_THAT(lines_.text(), HasSubstr("(and 199 more before)"));
}

TEST_F(AcceptorTest, SurvivesRunningOutOfDescriptors) {
  const auto fd = visit();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 3;  // below what is open already: every new descriptor fails
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  step();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(acceptor_->half_open(), 0u);
  EXPECT_THAT(lines_.text(), HasSubstr("ulimit -n"));
  clock_.advance(Acceptor::kPause);
  step_until([&] { return acceptor_->half_open() == 1; });
}

TEST_F(AcceptorTest, BusyListenersAreDialledAgain) {
  const auto address = place_.address;
  acceptor_.reset();  // refused at first
  Dialer dialer(poller_, clock_, dial_options());
  for (int i = 0; i < 5; ++i) {
    clock_.advance(kSecond);
    poller_.poll(kMillisecond);
    dialer.progress(clock_.now());
  }
  EXPECT_FALSE(dialer.ended());
  EXPECT_FALSE(dialer.last_error().ok());
  transport::tcp::PortRange port{address.port(), address.port()};
  auto listener = transport::tcp::listen_on(address, port);
  ASSERT_TRUE(listener.ok());
  AcceptorOptions options;
  options.handshake = config(0, 11);
  acceptor_ = std::make_unique<Acceptor>(
      poller_, clock_, std::move(listener).value(), options,
      [this](AuthenticatedSocket socket) { accepted_.push_back(std::move(socket)); });
  step_until([&] {
    clock_.advance(10 * kMillisecond);
    dialer.progress(clock_.now());
    return dialer.ended();
  });
  EXPECT_TRUE(dialer.take().ok());
}

TEST_F(AcceptorTest, SecondAddressIsTriedWhenTheFirstIsABlackHole) {
  DialOptions options = dial_options();
  options.insecure = true;
  options.addresses.insert(options.addresses.begin(),
                           transport::tcp::parse_literal("192.0.2.1", 9).value());
  Dialer dialer(poller_, clock_, options);
  step_until([&] {
    clock_.advance(20 * kMillisecond);
    dialer.progress(clock_.now());
    return dialer.ended();
  });
  EXPECT_TRUE(dialer.take().ok());
}

}  // namespace
}  // namespace syncline::cluster
