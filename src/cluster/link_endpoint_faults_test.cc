// Links between processes: killed, stopped, damaged and cut.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "cluster/link_endpoint.h"
#include "cluster/link_test_options.h"
#include "tests/harness/endpoint_contract.h"
#include "transport/tcp/socket.h"

namespace syncline::cluster {
namespace {

namespace tcp = transport::tcp;
using ::testing::HasSubstr;

tcp::Fd listen_here() {
  return std::move(tcp::listen_on(tcp::parse_literal("127.0.0.1", 0).value())).value();
}

// Rank 1 in a child process that sends frames of 1000 bytes for ever and owns a listener.
class Child {
 public:
  Child() {
    const tcp::Fd meeting = listen_here();
    tcp::Fd own = listen_here();
    address_ = tcp::local_address(own.get());
    const tcp::Address meet = tcp::local_address(meeting.get());
    pid_ = ::fork();
    if (pid_ == 0) {
      run(meet);
      ::_exit(0);
    }
    own.reset();
    for (const Nanos until = monotonic_now() + 10 * kSecond; monotonic_now() < until;) {
      auto accepted = tcp::accept_from(meeting.get());
      if (accepted.ok() && accepted->has_value()) {
        fd_ = std::move(*accepted.value());
        break;
      }
      pollfd waiting{meeting.get(), POLLIN, 0};
      ::poll(&waiting, 1, 100);
    }
    EXPECT_TRUE(fd_.valid());
  }
  ~Child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  void signal(int number) const { ::kill(pid_, number); }
  tcp::Fd take_fd() { return std::move(fd_); }
  const tcp::Address& address() const { return address_; }

 private:
  static void run(const tcp::Address& meet) {
    auto fd = tcp::connect_any({meet}, monotonic_now() + 10 * kSecond);
    if (!fd.ok()) return;
    event::Poller poller;
    auto end = make_link_endpoint(poller, kClock, fd->release(), options_of(1, 0));
    if (!end.ok()) return;
    for (std::uint64_t sent = 0; end.value()->status().ok();) {
      if (harness::send_numbered(*end.value(), sent, 1000) == transport::SendResult::kAccepted) {
        ++sent;
      }
      harness::pump(end.value().get(), poller);
    }
  }

  pid_t pid_ = -1;
  tcp::Fd fd_;
  tcp::Address address_;
};

// Rank 0, here.
struct Survivor {
  explicit Survivor(Child& child, LinkOptions options = options_of(0, 1)) {
    options.probe = ListenerProbe::of(child.address());
    options.log = [this](const std::string& line) { log += line + "\n"; };
    end = std::move(make_link_endpoint(poller, kClock, child.take_fd().release(), options)).value();
  }
  // Reads on until `done` holds; the time it took, or -1.
  template <class Done>
  Nanos read_until(Done done, Nanos limit) {
    const Nanos begin = monotonic_now();
    while (!done()) {
      if (monotonic_now() - begin > limit) return -1;
      harness::pump(end.get(), poller);
      while (const transport::Frame* frame = end->front()) {
        EXPECT_TRUE(harness::is_numbered(*frame, seen, 1000));
        end->pop();
        ++seen;
      }
    }
    return monotonic_now() - begin;
  }
  event::Poller poller;
  std::string log;
  std::uint64_t seen = 0;
  std::unique_ptr<transport::Endpoint> end;
};

TEST(LinkFaults, KilledPeerIsLostWithinASecond) {
  Child child;
  Survivor here(child);
  ASSERT_GE(here.read_until([&] { return here.seen >= 100; }, 20 * kSecond), 0);
  child.signal(SIGKILL);
  const Nanos took = here.read_until([&] { return !here.end->status().ok(); }, 5 * kSecond);
  ASSERT_GE(took, 0) << "never noticed";
  EXPECT_LT(took, kSecond);
  const Status status = here.end->status();
  EXPECT_EQ(status.code(), Code::kPeerLost) << status.to_string();
  EXPECT_EQ(status.peer(), 1);
  EXPECT_THAT(status.message(), HasSubstr("rank 1 on host host-1"));
}

TEST(LinkFaults, StoppedPeerIsSuspectedThenLost) {
  Child child;
  LinkOptions options = options_of(0, 1);
  options.silence = 2 * kSecond;
  Survivor here(child, options);
  ASSERT_GE(here.read_until([&] { return here.seen >= 100; }, 20 * kSecond), 0);
  child.signal(SIGSTOP);
  const Nanos suspected = here.read_until([&] { return !here.log.empty(); }, 10 * kSecond);
  EXPECT_GE(suspected, 900 * kMillisecond);
  EXPECT_LE(suspected, 2000 * kMillisecond);
  EXPECT_THAT(here.log, HasSubstr("suspect: rank 1 on host host-1"));
  EXPECT_TRUE(here.end->status().ok());
  const Nanos lost = here.read_until([&] { return !here.end->status().ok(); }, 10 * kSecond);
  EXPECT_GE(suspected + lost, 1900 * kMillisecond);
  EXPECT_LE(suspected + lost, 3500 * kMillisecond);
  EXPECT_EQ(here.end->status().code(), Code::kPeerLost);
  EXPECT_EQ(here.end->status().peer(), 1);
}

TEST(LinkFaults, ResumedPeerIsHeardAndNothingIsLost) {
  Child child;
  Survivor here(child);
  ASSERT_GE(here.read_until([&] { return here.seen >= 100; }, 20 * kSecond), 0);
  child.signal(SIGSTOP);
  ASSERT_GE(here.read_until([&] { return !here.log.empty(); }, 10 * kSecond), 0);
  child.signal(SIGCONT);
  const std::uint64_t before = here.seen;
  EXPECT_GE(here.read_until([&] { return here.seen > before + 100; }, 10 * kSecond), 0);
  EXPECT_THAT(here.log, HasSubstr("heard again"));
  EXPECT_TRUE(here.end->status().ok());
}

// The bytes of one endpoint, seen from a plain socket.
struct Plain {
  explicit Plain(LinkOptions options = options_of(0, 1)) {
    const tcp::Fd listener = listen_here();
    fd = std::move(
             tcp::connect_any({tcp::local_address(listener.get())}, monotonic_now() + 10 * kSecond))
             .value();
    auto accepted = tcp::accept_from(listener.get());
    end = std::move(
              make_link_endpoint(poller, kClock, accepted.value()->release(), std::move(options)))
              .value();
  }
  void write(const std::vector<std::byte>& bytes) {
    EXPECT_EQ(::send(fd.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  bool progress_until(const std::function<bool()>& done, Nanos limit = 10 * kSecond) {
    for (const Nanos until = monotonic_now() + limit; !done();) {
      if (monotonic_now() > until) return false;
      end->front();
      harness::pump(end.get(), poller);
    }
    return true;
  }
  bool ends() {
    return progress_until([&] { return !end->status().ok(); });
  }
  event::Poller poller;
  tcp::Fd fd;
  std::unique_ptr<transport::Endpoint> end;
};

std::vector<std::byte> encoded(wire::Header header) {
  header.incarnation = 101;
  std::vector<std::byte> bytes(wire::kHeaderBytes);
  wire::encode(header, bytes.data());
  return bytes;
}

TEST(LinkFaults, ForeignBytesEndTheLinkWithOneSentence) {
  Plain plain;
  std::vector<std::byte> request;
  for (const char each :
       std::string("GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: a port scan, or so\r\n\r\n"))
    request.push_back(static_cast<std::byte>(each));
  request.resize(200);
  plain.write(request);
  ASSERT_TRUE(plain.ends());
  EXPECT_EQ(plain.end->status().code(), Code::kCorrupt);
  EXPECT_EQ(plain.end->status().peer(), 1);
  EXPECT_THAT(plain.end->status().message(), HasSubstr("not a Syncline frame"));
  EXPECT_EQ(plain.poller.size(), 0u);
}

TEST(LinkFaults, HugeLengthReservesNothing) {
  Plain plain;
  wire::Header header;
  header.length = 0xfffffff0;
  header.rail_seq = 1;
  plain.write(encoded(header));
  ASSERT_TRUE(plain.ends());
  EXPECT_EQ(plain.end->status().code(), Code::kCorrupt);
  EXPECT_THAT(plain.end->status().message(), HasSubstr("length 4294967280"));
}

TEST(LinkFaults, CutWithinAFrameDeliversNothingOfIt) {
  LinkOptions options = options_of(0, 1);
  options.silence = 300 * kMillisecond;
  Plain plain(options);
  wire::Header header;
  header.length = 1000;
  header.rail_seq = 1;
  std::vector<std::byte> bytes = encoded(header);
  bytes.resize(bytes.size() + 999);
  plain.write(bytes);
  plain.fd.reset();
  ASSERT_TRUE(plain.ends());
  EXPECT_EQ(plain.end->front(), nullptr);
  EXPECT_EQ(plain.end->status().code(), Code::kPeerLost) << "nobody to ask: silence decides";
  ASSERT_NE(plain.end->status().cause(), nullptr);
  EXPECT_EQ(plain.end->status().cause()->code(), Code::kLinkDown);
}

TEST(LinkFaults, BrokenLinkToALivingPeerIsLinkDown) {
  const tcp::Fd acceptor = listen_here();
  LinkOptions options = options_of(0, 1);
  options.probe = ListenerProbe::of(tcp::local_address(acceptor.get()));
  options.silence = 400 * kMillisecond;
  Plain plain(options);
  plain.fd.reset();
  EXPECT_TRUE(plain.progress_until([&] {
    return harness::send_numbered(*plain.end, 0, 10) == transport::SendResult::kWouldBlock ||
           !plain.end->status().ok();
  })) << "a broken link takes what fits into its store and fails nothing yet";
  ASSERT_TRUE(plain.ends());
  EXPECT_EQ(plain.end->status().code(), Code::kLinkDown) << plain.end->status().to_string();
  EXPECT_EQ(plain.poller.size(), 0u) << "no probe stays behind";
}

TEST(LinkFaults, SocketThatIsNoConnectionIsRefused) {
  event::Poller poller;
  auto end = make_link_endpoint(poller, kClock, listen_here().release(), options_of(0, 1));
  ASSERT_FALSE(end.ok());
  EXPECT_THAT(end.status().message(), HasSubstr("rank 1 on host host-1"));
}

}  // namespace
}  // namespace syncline::cluster
