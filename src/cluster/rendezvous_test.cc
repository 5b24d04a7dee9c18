#include "cluster/rendezvous.h"

#include <sys/socket.h>

#include "cluster/job_harness_test.h"
#include "cluster/rendezvous_address.h"

namespace syncline::cluster {
namespace {

using testing::HasSubstr;
using testing::Not;
using namespace testing_job;  // NOLINT

void expect_same_view(std::deque<Rank>& ranks) {
  for (Rank& rank : ranks) {
    ASSERT_TRUE(rank.joined->ok()) << rank.rank << ": " << rank.joined->status().to_string();
    EXPECT_EQ(rank.joined->value().view, ranks[0].joined->value().view);
  }
  const View& view = ranks[0].joined->value().view;
  EXPECT_EQ(view.view, 1u);
  EXPECT_NE(view.job, 0u);
  ASSERT_EQ(view.members.size(), ranks.size());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    EXPECT_EQ(view.members[i].rank, static_cast<int>(i));
    EXPECT_EQ(view.members[i].host_id, host_id());
    EXPECT_EQ(view.members[i].addresses,
              std::vector<std::string>{
                  transport::tcp::local_address(ranks[i].joined->value().data_listeners[0].get())
                      .to_string()});
  }
}

TEST(Rendezvous, WorldOfOneNeedsNothing) {
  event::Poller poller;
  RendezvousConfig config;
  const auto joined = rendezvous(poller, MonotonicClock(), config, describe_self(0));
  ASSERT_TRUE(joined.ok());
  EXPECT_EQ(joined.value().view.members.size(), 1u);
}

TEST(Rendezvous, AllRanksGetOneTable) {
  for (const int world_size : {2, 3, 5}) {
    Place place;
    auto ranks = job(world_size, place);
    run(ranks);
    expect_same_view(ranks);
  }
}

TEST(Rendezvous, ListenerIsClosedAfterwards) {
  Place place;
  auto ranks = job(2, place);
  run(ranks);
  EXPECT_FALSE(transport::tcp::connect_any({place.address}, monotonic_now() + kSecond).ok());
}

TEST(Rendezvous, WithoutAKeyOnLoopback) {
  Place place;
  auto ranks = job(2, place);
  for (auto& rank : ranks) rank.config.key = JobKey();
  run(ranks);
  expect_same_view(ranks);
}

// Takes ranks [first, end) out of the job, to be run later.
std::deque<Rank> split(std::deque<Rank>& ranks, std::size_t first) {
  std::deque<Rank> tail;
  while (ranks.size() > first) {
    tail.push_front(std::move(ranks.back()));
    ranks.pop_back();
  }
  return tail;
}

// Runs `strangers` while rank 0 alone waits, then the rest of the job.
void run_after(std::deque<Rank>& strangers, std::deque<Rank>& ranks) {
  auto late = split(ranks, 1);
  event::NamedThread first("rank 0", [&] { run(ranks); });
  run(strangers);
  run(late);
  first.join();
  for (auto& rank : late) ranks.push_back(std::move(rank));
}

Rank like(const Rank& rank) {
  Rank copy;
  copy.rank = rank.rank;
  copy.config = rank.config;
  return copy;
}

TEST(Rendezvous, WrongKeyIsRefusedWhileTheOthersSucceed) {
  Place place;
  auto ranks = job(3, place);
  std::deque<Rank> strangers;
  strangers.push_back(like(ranks[1]));
  strangers[0].config.key = key(8);
  run_after(strangers, ranks);
  ASSERT_FALSE(strangers[0].joined->ok());
  EXPECT_EQ(strangers[0].joined->status().code(), Code::kFailedPrecondition);
  EXPECT_THAT(strangers[0].joined->status().message(), HasSubstr("wrong job key"));
  expect_same_view(ranks);
}

TEST(Rendezvous, OtherJobsAndWorldSizesAreRefusedByName) {
  Place place;
  auto ranks = job(2, place);
  std::deque<Rank> strangers;
  for (int i = 0; i < 3; ++i) strangers.push_back(like(ranks[1]));
  strangers[0].config.run_id = "another";
  strangers[1].config.world_size = 8;
  strangers[2].config.key = JobKey();
  run_after(strangers, ranks);
  EXPECT_THAT(strangers[0].joined->status().message(),
              HasSubstr("another job is there (run id 'test'"));
  EXPECT_THAT(strangers[1].joined->status().message(), HasSubstr("world size 8 here, 2 there"));
  EXPECT_THAT(strangers[2].joined->status().message(),
              HasSubstr("has a job key and this one has none"));
  expect_same_view(ranks);
}

TEST(Rendezvous, OtherNumbersOfServersAreRefused) {
  Place place;
  auto ranks = job(3, place);
  for (Rank& rank : ranks) rank.config.servers = 1;
  std::deque<Rank> strangers;
  for (int i = 0; i < 2; ++i) strangers.push_back(like(ranks[1]));
  strangers[0].config.servers = 2;  // one rank with two servers are three processes too
  strangers[1].config.servers = 0;
  strangers[1].config.world_size = 2;
  run_after(strangers, ranks);
  EXPECT_THAT(strangers[0].joined->status().message(),
              HasSubstr("world size 1 with 2 servers here, 2 with 1 servers there; give all "
                        "processes the same SYNCLINE_SERVERS"));
  EXPECT_THAT(strangers[1].joined->status().message(),
              HasSubstr("world size 2 with 0 servers here, 2 with 1 servers there"));
  expect_same_view(ranks);
}

TEST(Rendezvous, SecondOfARankIsRefused) {
  Place place;
  Lines lines;
  auto ranks = job(3, place, "test", lines.sink());
  auto late = split(ranks, 2);
  Rank twin = {};
  twin.rank = 1;
  twin.config = ranks[1].config;
  ranks.push_back(std::move(twin));
  event::NamedThread first("first", [&] { run(ranks); });
  EXPECT_TRUE(lines.wait_for("rank 1 is there already (pid "));
  run(late);
  first.join();
  ASSERT_TRUE(late[0].joined->ok());
  ASSERT_NE(ranks[1].joined->ok(), ranks[2].joined->ok());
  const int refused = ranks[1].joined->ok() ? 2 : 1;
  EXPECT_EQ(ranks[refused].joined->status().code(), Code::kMismatch);
  EXPECT_THAT(ranks[refused].joined->status().message(),
              HasSubstr("and each process its own rank"));
}

// Two jobs of one host were given one address and no run id: each is started by its own parent.
TEST(Rendezvous, WithoutARunIdRanksOfTheSameParentArePreferred) {
  Place place;
  Lines lines;
  auto ranks = job(2, place, "", lines.sink());
  auto late = split(ranks, 1);
  Rank other = {};
  other.rank = 1;
  other.config = late[0].config;
  other.self = describe_self(1);
  other.self->launcher_pid += 1;
  ranks.push_back(std::move(other));
  event::NamedThread first("first", [&] { run(ranks); });
  EXPECT_TRUE(lines.wait_for("was started by another process than rank 0"));
  run(late);
  first.join();
  ASSERT_TRUE(late[0].joined->ok()) << late[0].joined->status().to_string();
  EXPECT_TRUE(ranks[0].joined->ok());
  ASSERT_FALSE(ranks[1].joined->ok());
  EXPECT_THAT(ranks[1].joined->status().message(), HasSubstr("SYNCLINE_RUN_ID"));
}

// NET-05: nothing tells the two apart, and a job of ranks of two jobs would be worse than none.
TEST(Rendezvous, WithoutARunIdTwinsEndTheJob) {
  Place place;
  auto ranks = job(3, place, "");
  ranks.pop_back();  // so that it cannot start before the second one comes
  ranks.push_back(like(ranks[1]));
  run(ranks);
  for (auto& rank : ranks) {
    EXPECT_EQ(rank.joined->status().code(), Code::kMismatch) << rank.rank;
    EXPECT_THAT(rank.joined->status().message(), HasSubstr("rank 1 is there twice"));
    EXPECT_THAT(rank.joined->status().message(), HasSubstr("SYNCLINE_RUN_ID"));
  }
}

TEST(Rendezvous, MissingRanksAreNamedOnBothSides) {
  Place place;
  Lines lines;
  auto ranks = job(4, place, "test", lines.sink());
  ranks.resize(2);
  ranks[0].config.timeout = 1500 * kMillisecond;
  ranks[0].config.report_every = 500 * kMillisecond;
  run(ranks);
  EXPECT_EQ(ranks[0].joined->status().code(), Code::kTimeout);
  EXPECT_THAT(ranks[0].joined->status().message(),
              HasSubstr("ranks 2, 3 of 4 did not arrive at " + place.uri + " within 1 s"));
  EXPECT_THAT(ranks[1].joined->status().message(), HasSubstr("ranks 2, 3 of 4 did not arrive"));
  EXPECT_THAT(lines.text(), HasSubstr("rank 0 waits for ranks 2, 3 of 4 at " + place.uri));
}

TEST(Rendezvous, MissingServersAreNamed) {
  Place place;
  auto ranks = job(5, place);
  for (Rank& rank : ranks) rank.config.servers = 2;
  ranks[0].config.timeout = 1500 * kMillisecond;
  ranks.erase(ranks.begin() + 2, ranks.begin() + 4);
  run(ranks);
  for (const Rank& rank : ranks) {
    EXPECT_EQ(rank.joined->status().code(), Code::kTimeout);
    EXPECT_THAT(rank.joined->status().message(),
                HasSubstr("rank 2 of 3 and server 0 of 2 did not"));
  }
}

TEST(Rendezvous, AbsentRankZeroIsNamed) {
  Place place;
  auto ranks = job(2, place);
  ::close(ranks[0].config.listen_fd);
  ranks.pop_front();
  ranks[0].config.timeout = 300 * kMillisecond;
  run(ranks);
  EXPECT_EQ(ranks[0].joined->status().code(), Code::kTimeout);
  EXPECT_EQ(ranks[0].joined->status().peer(), 0);
  EXPECT_THAT(ranks[0].joined->status().message(),
              HasSubstr("rank 0 cannot be reached at " + place.address.to_string()));
  EXPECT_THAT(ranks[0].joined->status().message(), HasSubstr("Connection refused"));
}

// SEC-01
TEST(Rendezvous, GarbageChangesNothingButTheLog) {
  Place place;
  Lines lines;
  auto ranks = job(2, place, "test", lines.sink());
  std::vector<transport::tcp::Fd> visitors;
  const std::string texts[] = {"GET / HTTP/1.0\r\n\r\n", std::string("\x16\x03\x01\x02\x00\x01", 6),
                               std::string(64, '\xff'), "SYNCLINE" + std::string(300, 'x'), ""};
  for (int i = 0; i < 40; ++i) {
    auto fd = transport::tcp::connect_any({place.address}, monotonic_now() + kSecond);
    ASSERT_TRUE(fd.ok());
    const std::string& text = texts[i % 5];
    (void)::send(fd.value().get(), text.data(), text.size(), MSG_NOSIGNAL);
    visitors.push_back(std::move(fd).value());
  }
  run(ranks);
  expect_same_view(ranks);
  EXPECT_THAT(lines.text(),
              HasSubstr("refused a connection from 127.0.0.1 on the rendezvous listener"));
  // One line for one source, however many connections.
  const std::string text = lines.text();
  EXPECT_EQ(text.find("refused a connection"), text.rfind("refused a connection"));
}

// SEC-06
TEST(Rendezvous, AnotherProgramAtTheAddressIsNamed) {
  Place place;
  for (const auto& answer :
       std::vector<std::string>{"HTTP/1.1 400 Bad Request\r\n\r\n", std::string(64, '\xff')}) {
    auto ranks = job(2, place);
    const int listener = ranks[0].config.listen_fd;
    ranks.pop_front();
    event::NamedThread stub("stub", [&] {
      event::Poller poller;
      transport::tcp::Fd fd;
      poller.add(listener, 1 /* EPOLLIN */, [&](std::uint32_t) {
        auto next = transport::tcp::accept_from(listener);
        if (next.ok() && next.value()) fd = std::move(*next.value());
      });
      while (!fd.valid()) poller.poll(kSecond);
      (void)::send(fd.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
      char byte;
      while (::recv(fd.get(), &byte, 1, 0) != 0) poller.poll(kMillisecond);  // stays open
      poller.remove(listener);
    });
    run(ranks);
    stub.join();
    EXPECT_THAT(ranks[0].joined->status().message(),
                HasSubstr("not a syncline endpoint at " + place.address.to_string()));
    place.listener.reset(listener);
  }
}

TEST(Rendezvous, BusyPortFailsAtOnce) {
  Place place;
  event::Poller poller;
  RendezvousConfig config;
  config.uri = place.uri;
  config.world_size = 2;
  const auto joined = rendezvous(poller, MonotonicClock(), config, describe_self(0));
  EXPECT_EQ(joined.status().code(), Code::kExhausted);
  EXPECT_THAT(joined.status().message(), HasSubstr(place.address.to_string()));
  EXPECT_THAT(joined.status().message(), HasSubstr("in use"));
}

TEST(Rendezvous, WithoutAKeyOtherHostsAreNotServed) {
  RendezvousConfig config;
  config.uri = "tcp://192.0.2.1:29500";
  config.world_size = 2;
  event::Poller poller;
  for (const int rank : {0, 1}) {
    const auto joined = rendezvous(poller, MonotonicClock(), config, describe_self(rank));
    EXPECT_EQ(joined.status().code(), Code::kFailedPrecondition);
    EXPECT_THAT(joined.status().message(), HasSubstr("syncline key create"));
  }
}

TEST(Rendezvous, BadUrisAreOneClearLine) {
  for (const char* uri :
       {"", "http://a", "tcp://a", "tcp://a:x", "tcp://::1:5", "file:relative", "file:"}) {
    EXPECT_EQ(parse_rendezvous_uri(uri).status().code(), Code::kInvalidArgument) << uri;
  }
  EXPECT_EQ(parse_rendezvous_uri("etcd://a").status().code(), Code::kUnsupported);
  EXPECT_EQ(parse_rendezvous_uri("file:///shared/x/").value().folder, "/shared/x");
  EXPECT_EQ(parse_rendezvous_uri("file:/shared/x").value().folder, "/shared/x");
  EXPECT_EQ(parse_rendezvous_uri("tcp://[::1]:5").value().where.host, "::1");
  event::Poller poller;
  RendezvousConfig config;
  config.uri = "tcp://127.0.0.1:0";
  config.world_size = 2;
  const auto joined = rendezvous(poller, MonotonicClock(), config, describe_self(0));
  EXPECT_THAT(joined.status().message(), HasSubstr("SYNCLINE_RENDEZVOUS_FD"));
}

TEST(Rendezvous, InheritedDescriptorMustListen) {
  event::Poller poller;
  RendezvousConfig config;
  config.uri = "tcp://127.0.0.1:1";
  config.world_size = 2;
  config.listen_fd = 0;
  const auto joined = rendezvous(poller, MonotonicClock(), config, describe_self(0));
  EXPECT_THAT(joined.status().message(), HasSubstr("is no listening socket"));
}

}  // namespace
}  // namespace syncline::cluster
