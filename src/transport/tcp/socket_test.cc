#include "transport/tcp/socket.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>

#include <cerrno>

#include "transport/tcp/rail.h"

namespace syncline::transport::tcp {
namespace {

using ::testing::HasSubstr;

Address loopback(std::uint16_t port = 0) { return parse_literal("127.0.0.1", port).value(); }
Nanos soon() { return monotonic_now() + 10 * kSecond; }

// An address that refuses: bound, so that nobody else gets it, but not listening.
struct Refusing {
  Refusing() : fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const Address any_port = loopback();
    EXPECT_EQ(::bind(fd.get(), any_port.get(), any_port.length()), 0);
    address = local_address(fd.get());
  }
  Fd fd;
  Address address;
};

// A listener whose queue is full: further connections get no answer, like a dropped packet.
struct Blackhole {
  Blackhole() : listener(std::move(listen_on(loopback(), {}, 0)).value()) {
    address = local_address(listener.get());
    for (auto& each : waiting) each = std::move(start_connect(address).fd);
  }
  Fd listener;
  Address address;
  Fd waiting[4];
};

TEST(PortRange, ParsesAndRefuses) {
  EXPECT_EQ(parse_port_range("")->last, 0);
  EXPECT_EQ(parse_port_range("20000-20010")->first, 20000);
  EXPECT_EQ(parse_port_range("20000-20010")->last, 20010);
  EXPECT_EQ(parse_port_range("80")->last, 80);
  for (const char* text : {"0", "-", "5-", "-5", "9-8", "1-65536", "a-b", "1-2-3", " 1-2"}) {
    const auto range = parse_port_range(text);
    EXPECT_FALSE(range.ok()) << text;
    EXPECT_THAT(range.status().message(), HasSubstr("'" + std::string(text) + "'"));
  }
}

TEST(Listen, BindsExactlyTheAddressWithAKernelPort) {
  for (const char* host : {"127.0.0.1", "127.0.0.2", "::1"}) {
    const auto fd = listen_on(parse_literal(host, 0).value());
    ASSERT_TRUE(fd.ok()) << fd.status().to_string();
    EXPECT_EQ(local_address(fd->get()).host(), host);
    EXPECT_GT(local_address(fd->get()).port(), 0);
    EXPECT_TRUE(::fcntl(fd->get(), F_GETFD) & FD_CLOEXEC);
    EXPECT_TRUE(::fcntl(fd->get(), F_GETFL) & O_NONBLOCK);
  }
}

TEST(Listen, BusyPortNamesHostPortAndReason) {
  const auto first = listen_on(loopback());
  const std::uint16_t port = local_address(first->get()).port();
  const auto second = listen_on(loopback(), {port, port});
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.status().message(), HasSubstr("127.0.0.1:" + std::to_string(port)));
  EXPECT_THAT(second.status().message(), HasSubstr("Address already in use"));
  const auto foreign = listen_on(parse_literal("192.0.2.1", 0).value());
  ASSERT_FALSE(foreign.ok());
  EXPECT_EQ(foreign.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(foreign.status().message(), HasSubstr("192.0.2.1"));
}

TEST(Listen, RangeSkipsBusyPortsAndSaysWhenAllAreBusy) {
  // Ports around one the kernel just gave are likely free; a busy neighbour is skipped all the
  // same.
  const auto first = listen_on(loopback());
  const std::uint16_t base = local_address(first->get()).port();
  if (base > 65000) GTEST_SKIP() << "too near the end of the port numbers";
  const PortRange range{base, static_cast<std::uint16_t>(base + 20)};
  const auto second = listen_on(loopback(), range);
  ASSERT_TRUE(second.ok()) << second.status().to_string();
  const std::uint16_t port = local_address(second->get()).port();
  EXPECT_GT(port, base);
  EXPECT_LE(port, base + 20);
  if (port != base + 1) GTEST_SKIP() << "a neighbour is in use";
  const auto third = listen_on(loopback(), {base, port});
  ASSERT_FALSE(third.ok());
  EXPECT_THAT(third.status().message(),
              HasSubstr("ports " + std::to_string(base) + "-" + std::to_string(port)));
}

TEST(Connect, FirstWorkingAddressOfSeveralWins) {
  const auto listener = listen_on(loopback());
  const Address good = local_address(listener->get());
  const Refusing refusing;
  const auto fd = connect_any({refusing.address, good}, soon());
  ASSERT_TRUE(fd.ok()) << fd.status().to_string();
  EXPECT_EQ(remote_address(fd->get()), good);
  int no_delay = 0;
  socklen_t length = sizeof no_delay;
  ::getsockopt(fd->get(), IPPROTO_TCP, TCP_NODELAY, &no_delay, &length);
  EXPECT_NE(no_delay, 0);
  auto accepted = accept_from(listener->get());
  ASSERT_TRUE(accepted.ok() && accepted->has_value());
  EXPECT_EQ(remote_address(accepted.value()->get()), local_address(fd->get()));
  accepted = accept_from(listener->get());
  EXPECT_TRUE(accepted.ok() && !accepted->has_value());
}

TEST(Connect, SilentFirstAddressCostsAQuarterSecond) {
  const auto listener = listen_on(parse_literal("::1", 0).value());
  const Blackhole blackhole;
  const Nanos begin = monotonic_now();
  const auto fd = connect_any({blackhole.address, local_address(listener->get())}, soon());
  ASSERT_TRUE(fd.ok()) << fd.status().to_string();
  EXPECT_EQ(remote_address(fd->get()).family(), AF_INET6);
  EXPECT_LT(monotonic_now() - begin, 3 * kSecond);
}

TEST(Connect, FailureNamesEveryAddressAndReasonAtOnce) {
  const Refusing first;
  const Refusing second;
  const auto fd = connect_any({first.address, second.address}, soon());
  ASSERT_FALSE(fd.ok());
  EXPECT_EQ(fd.status().code(), Code::kLinkDown);
  EXPECT_THAT(fd.status().message(), HasSubstr(first.address.to_string() + ": Connection refused"));
  EXPECT_THAT(fd.status().message(), HasSubstr(second.address.to_string()));
}

TEST(Connect, DeadlineHolds) {
  const Blackhole blackhole;
  const Nanos begin = monotonic_now();
  const auto fd = connect_any({blackhole.address}, begin + 50 * kMillisecond);
  ASSERT_FALSE(fd.ok());
  EXPECT_EQ(fd.status().code(), Code::kTimeout);
  EXPECT_THAT(fd.status().message(), HasSubstr(blackhole.address.to_string() + ": no answer"));
  EXPECT_GE(monotonic_now() - begin, 50 * kMillisecond);
}

struct RailPair {
  RailPair() {
    const auto listener = listen_on(loopback());
    Fd client = std::move(connect_any({local_address(listener->get())}, soon())).value();
    Fd server = std::move(std::move(accept_from(listener->get())).value().value());
    a = std::make_unique<Rail>();
    a->open(std::make_unique<SocketStream>(std::move(client)));
    b = std::make_unique<Rail>();
    b->open(std::make_unique<SocketStream>(std::move(server)));
  }
  IoResult read_b() {
    IoResult result;
    const Nanos deadline = soon();
    do {
      result = b->read(64, 1024);
    } while (result.state == IoState::kAgain && monotonic_now() < deadline);
    return result;
  }
  std::unique_ptr<Rail> a;
  std::unique_ptr<Rail> b;
};

TEST(Rail, GathersPiecesAndReportsAnOrderlyEnd) {
  RailPair pair;
  EXPECT_EQ(pair.b->read(64, 1024).state, IoState::kAgain);
  const std::byte x[3] = {std::byte{1}, std::byte{2}, std::byte{3}};
  const std::span<const std::byte> pieces[2] = {{x, 2}, {x + 1, 2}};
  EXPECT_EQ(pair.a->write(pieces).bytes, 4u);
  pair.a->close();
  EXPECT_FALSE(pair.a->is_open());
  while (pair.b->staging().size() < 4) ASSERT_EQ(pair.read_b().state, IoState::kOk);
  EXPECT_EQ(pair.b->staging().data()[2], std::byte{2});
  EXPECT_EQ(pair.read_b().state, IoState::kEof);
}

TEST(Rail, WritingToADeadPeerIsAResultNotASignal) {
  RailPair pair;
  const linger hard{1, 0};
  ::setsockopt(pair.b->fd(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  pair.b.reset();
  const std::byte x[100] = {};
  const std::span<const std::byte> piece[1] = {x};
  IoResult result;
  const Nanos deadline = soon();
  do {
    result = pair.a->write(piece);
  } while (result.state == IoState::kOk && monotonic_now() < deadline);
  EXPECT_EQ(result.state, IoState::kReset);
}

std::string pacing(int fd) {
  char name[32] = "";
  socklen_t length = sizeof name - 1;
  EXPECT_EQ(::getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length), 0);
  return name;
}

TEST(Pacing, TheSystemsChoiceButNotBbr) {
  const Fd fd(::socket(AF_INET, SOCK_STREAM, 0));
  const std::string system = pacing(fd.get());
  pace(fd.get(), "system");
  EXPECT_EQ(pacing(fd.get()), system);
  pace(fd.get(), "");
  EXPECT_EQ(pacing(fd.get()) != system, system == "bbr" && check_congestion_control("cubic").ok());
  pace(fd.get(), "reno");  // every kernel has it, and lets everybody use it
  EXPECT_EQ(pacing(fd.get()), "reno");
  pace(fd.get(), "no-such-thing");
  EXPECT_EQ(pacing(fd.get()), "reno");
}

TEST(Pacing, UnknownNamesAreRefused) {
  EXPECT_TRUE(check_congestion_control("").ok());
  EXPECT_TRUE(check_congestion_control("system").ok());
  EXPECT_TRUE(check_congestion_control("reno").ok());
  const Status status = check_congestion_control("no-such-thing");
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("tcp_available_congestion_control"), std::string::npos);
}

}  // namespace
}  // namespace syncline::transport::tcp
