#include "cluster/rendezvous_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "cluster/job_harness_test.h"

namespace syncline::cluster {
namespace {

using testing::HasSubstr;
using namespace testing_job;  // NOLINT

// A process id that no process has.
constexpr int kNobody = 1 << 30;

class RendezvousFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "syncline-rendezvous-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  std::deque<Rank> file_job(int world_size, const std::string& run_id) {
    Place place;
    auto ranks = job(world_size, place, run_id);
    ::close(ranks[0].config.listen_fd);
    ranks[0].config.listen_fd = -1;
    for (auto& rank : ranks) {
      rank.config.uri = "file:" + dir_;
      rank.config.one_host = true;
    }
    return ranks;
  }
  std::string path(const std::string& run_id) { return rendezvous_file_path(dir_, run_id); }
  RendezvousFile entry(const std::string& address, int pid) {
    return {"", 77, address, pid, host_name(), host_id()};
  }
  void leave_behind(const std::string& run_id, const RendezvousFile& file) {
    std::ofstream(path(run_id)) << format(file);
  }
  static void expect_joined(std::deque<Rank>& ranks) {
    for (auto& rank : ranks) ASSERT_TRUE(rank.joined->ok()) << rank.joined->status().to_string();
    EXPECT_EQ(ranks[0].joined->value().view, ranks[1].joined->value().view);
  }
  std::string dir_;
};

TEST_F(RendezvousFileTest, TextRoundTripsAndPartsAreRefused) {
  const RendezvousFile file{"run 7", 0xfedcba9876543210, "[::1]:5", 42, "host-a", "boot/1"};
  const std::string text = format(file);
  EXPECT_EQ(parse_rendezvous_file(text), file);
  for (std::size_t n = 0; n + 1 < text.size(); ++n) {
    EXPECT_EQ(parse_rendezvous_file(text.substr(0, n)), std::nullopt) << n;
  }
  EXPECT_EQ(parse_rendezvous_file("something else\n"), std::nullopt);
}

TEST_F(RendezvousFileTest, RunIdsBecomeFileNames) {
  EXPECT_EQ(rendezvous_file_path("/d", ""), "/d/syncline-default.rendezvous");
  EXPECT_EQ(rendezvous_file_path("/d", "../a b"), "/d/syncline-.._a_b.rendezvous");
}

TEST_F(RendezvousFileTest, RanksMeetAndTheFileIsGoneAfterwards) {
  auto ranks = file_job(3, "job");
  run(ranks);
  expect_joined(ranks);
  EXPECT_TRUE(std::filesystem::is_empty(dir_));
}

TEST_F(RendezvousFileTest, FolderIsCreated) {
  auto ranks = file_job(2, "job");
  for (auto& rank : ranks) rank.config.uri = "file:" + dir_ + "/new";
  run(ranks);
  expect_joined(ranks);
}

// NET-05, as far as RendezvousFileTest goes; with processes: tests/proc/meeting_test.py.
TEST_F(RendezvousFileTest, FileOfAKilledRunIsReplaced) {
  Place gone;
  const std::string address = gone.address.to_string();
  gone.listener.reset();
  leave_behind("job", entry(address, kNobody));
  auto ranks = file_job(2, "job");
  run(ranks);
  expect_joined(ranks);
}

// The port of a killed run now belongs to another job of ours, which refuses by incarnation or run
// id.
TEST_F(RendezvousFileTest, FileWhosePortWasReusedIsReplaced) {
  Place reused;
  event::Poller poller;
  MonotonicClock clock;
  AcceptorOptions options;
  options.handshake.key = key(7);
  options.handshake.run_id = "other";
  options.handshake.world_size = 2;
  options.handshake.incarnation = 5;
  Acceptor acceptor(poller, clock, std::move(reused.listener), options, [](AuthenticatedSocket) {});
  bool done = false;
  leave_behind("job", entry(reused.address.to_string(), kNobody));
  auto guest = file_job(2, "job");
  auto host = file_job(2, "job");
  guest.pop_front();
  host.pop_back();
  event::NamedThread joiner("guest", [&] { run(guest); });
  // Rank 0 comes only after the stale address turned rank 1 away.
  while (acceptor.stats().refused == 0) {
    poller.poll(kSecond);
    acceptor.progress(clock.now());
  }
  run(host);
  joiner.join();
  done = host[0].joined->ok() && guest[0].joined->ok();
  EXPECT_TRUE(done) << guest[0].joined->status().to_string();
}

TEST_F(RendezvousFileTest, SecondJobWithoutARunIdIsRefusedWithTheOwnersPid) {
  Place alive;
  leave_behind("", entry(alive.address.to_string(), ::getpid()));
  auto ranks = file_job(2, "");
  ranks.pop_back();
  run(ranks);
  ASSERT_FALSE(ranks[0].joined->ok());
  EXPECT_THAT(ranks[0].joined->status().message(),
              HasSubstr("rank 0 is pid " + std::to_string(::getpid())));
  EXPECT_EQ(read_rendezvous_file(path("")), entry(alive.address.to_string(), ::getpid()));
}

TEST_F(RendezvousFileTest, TimeoutsSayWhatWasFound) {
  auto ranks = file_job(2, "job");
  ranks.pop_front();
  ranks[0].config.timeout = 200 * kMillisecond;
  run(ranks);
  EXPECT_EQ(ranks[0].joined->status().code(), Code::kTimeout);
  EXPECT_THAT(ranks[0].joined->status().message(), HasSubstr("there is no such file"));

  Place gone;
  const std::string address = gone.address.to_string();
  gone.listener.reset();
  leave_behind("job", entry(address, kNobody));
  run(ranks);
  EXPECT_THAT(ranks[0].joined->status().message(), HasSubstr("left behind by a killed job?"));
}

TEST_F(RendezvousFileTest, UnusableFolderIsOneClearLine) {
  auto ranks = file_job(2, "job");
  ranks.pop_back();
  ranks[0].config.uri = "file:/proc/nothing/here";
  run(ranks);
  EXPECT_THAT(ranks[0].joined->status().message(), HasSubstr("/proc/nothing/here"));
}

}  // namespace
}  // namespace syncline::cluster
