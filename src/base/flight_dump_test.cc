#include "base/flight_dump.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/flight_memory.h"
#include "base/flight_recorder.h"

namespace syncline::flight {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBytes = image_bytes(16, 16);

class FlightFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/syncline-test-XXXXXX";
    ASSERT_NE(::mkdtemp(folder), nullptr);
    folder_ = folder;
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string folder_;
};

Header header_of(const std::string& file) {
  Header header;
  std::ifstream(file, std::ios::binary).read(reinterpret_cast<char*>(&header), sizeof header);
  return header;
}

TEST_F(FlightFolder, ALiveFileGoesAwayWithItsFolders) {
  const auto memory = file_memory(path("live"), "job", 3, kBytes);
  ASSERT_TRUE(memory.ok()) << memory.status().to_string();
  EXPECT_EQ(memory->file, path("live/job/rank-3.flight"));
  FlightRecorder recorder(memory->bytes, {3, 4, "job", "h"}, 16, 16);
  EXPECT_EQ(header_of(memory->file).rank, 3);
  EXPECT_EQ(fs::file_size(memory->file), kBytes);
  struct stat info {};
  ASSERT_EQ(::stat(memory->file.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  remove_live_file(memory->file);
  EXPECT_FALSE(fs::exists(path("live")));
  remove_live_file(memory->file);
}

TEST_F(FlightFolder, ALiveFileReplacesWhatLiesThere) {
  fs::create_directories(path("live/job"));
  fs::permissions(path("live/job"), fs::perms::owner_all);
  fs::create_symlink("/etc/passwd", path("live/job/rank-0.flight"));
  const auto memory = file_memory(path("live"), "job", 0, kBytes);
  ASSERT_TRUE(memory.ok()) << memory.status().to_string();
  EXPECT_FALSE(fs::is_symlink(memory->file));
  remove_live_file(memory->file);
}

TEST_F(FlightFolder, ForeignFoldersInSharedPlacesAreRefused) {
  fs::permissions(folder_, fs::perms::all);
  fs::create_directory(path("open"));
  fs::permissions(path("open"), fs::perms::all);
  EXPECT_EQ(make_own_folder(path("open")).code(), Code::kFailedPrecondition);
  fs::create_directory_symlink("/etc", path("link"));
  EXPECT_EQ(make_own_folder(path("link")).code(), Code::kFailedPrecondition);
  EXPECT_TRUE(make_own_folder(path("mine")).ok());
  EXPECT_TRUE(make_own_folder(path("mine")).ok());
}

TEST_F(FlightFolder, DumpsFromImageAndFromMemoryFile) {
  const int fd = ::memfd_create(kMemoryFileName, MFD_CLOEXEC);
  const auto nothing = write_dump(path("dumps"), fd, DumpNote{});
  ASSERT_TRUE(nothing.ok());
  EXPECT_EQ(nothing.value(), "");  // nobody opened it
  auto memory = inherited_memory(::dup(fd), kBytes);
  ASSERT_TRUE(memory.ok()) << memory.status().to_string();
  EXPECT_EQ(inherited_memory(::dup(fd), kBytes).status().code(), Code::kExhausted);
  FlightRecorder recorder(memory->bytes, {1, 2, "a/../b", "h"}, 16, 16);
  DumpNote note;
  note.reason = Reason::kProcessEnd;
  note.signal = 9;
  const auto file = write_dump(path("dumps"), fd, note);
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_EQ(file.value(), path("dumps/a_.._b/rank-1.flight"));
  EXPECT_EQ(header_of(file.value()).dump.signal, 9);
  EXPECT_GT(header_of(file.value()).dump.dumped_wall, 0u);
  note.reason = Reason::kFailure;
  ASSERT_TRUE(write_dump(path("dumps"), recorder.image(), note).ok());
  EXPECT_EQ(header_of(file.value()).dump.reason, Reason::kFailure);
  EXPECT_EQ(write_dump(path("dumps"), std::vector<std::byte>(10), note).status().code(),
            Code::kCorrupt);
  ::close(fd);
}

TEST_F(FlightFolder, ADumpThatItsProcessDidNotFinishIsReplaced) {
  const pid_t dead = ::fork();
  if (dead == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(dead, nullptr, 0), dead);
  const int fd = ::memfd_create(kMemoryFileName, MFD_CLOEXEC);
  auto memory = inherited_memory(::dup(fd), kBytes);
  ASSERT_TRUE(memory.ok()) << memory.status().to_string();
  FlightRecorder recorder(memory->bytes, {1, 2, "job", "h"}, 16, 16);
  std::vector<std::byte> image = recorder.image();
  const auto pid = static_cast<std::uint32_t>(dead);
  std::memcpy(image.data() + offsetof(Header, pid), &pid, sizeof pid);
  fs::create_directories(path("dumps/job"));
  fs::permissions(path("dumps"), fs::perms::owner_all);
  fs::permissions(path("dumps/job"), fs::perms::owner_all);
  const std::string begun = path("dumps/job/rank-1.flight.") + std::to_string(dead) + ".part";
  const std::string living = path("dumps/job/rank-1.flight.1.part");
  std::ofstream(begun) << "half";
  std::ofstream(living) << "half";
  ASSERT_TRUE(write_dump(path("dumps"), image, DumpNote{}).ok());
  EXPECT_FALSE(fs::exists(begun));
  EXPECT_TRUE(fs::exists(living));
  EXPECT_TRUE(fs::exists(path("dumps/job/rank-1.flight")));
  ::close(fd);
}

TEST_F(FlightFolder, OtherDescriptorsAreLeftAlone) {
  std::ofstream(path("data")) << "precious";
  const int fd = ::open(path("data").c_str(), O_RDWR | O_CLOEXEC);
  EXPECT_EQ(inherited_memory(fd, kBytes).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(fs::file_size(path("data")), 8u);
  ::close(fd);
  EXPECT_EQ(inherited_memory(fd, kBytes).status().code(), Code::kInvalidArgument);
}

TEST_F(FlightFolder, PruneKeepsTheNewestAndWhatIsWritten) {
  const auto memory = file_memory(folder_, "living", 0, kBytes);
  ASSERT_TRUE(memory.ok());
  FlightRecorder recorder(memory->bytes, {0, 2, "living", "h"}, 16, 16);
  const auto now = fs::file_time_type::clock::now();
  fs::last_write_time(path("living"), now - std::chrono::hours(9));
  for (int age = 1; age <= 4; ++age) {
    const std::string job = path("job-" + std::to_string(age));
    fs::create_directory(job);
    std::ofstream(job + "/rank-0.flight") << "old";
    if (age == 4) std::ofstream(job + "/notes.txt") << "somebody's";
    fs::last_write_time(job, now - std::chrono::hours(age));
  }
  prune(folder_, 2);
  EXPECT_TRUE(fs::exists(path("job-1/rank-0.flight")));
  EXPECT_TRUE(fs::exists(path("job-2/rank-0.flight")));
  EXPECT_FALSE(fs::exists(path("job-3")));
  EXPECT_TRUE(fs::exists(path("job-4/notes.txt")));
  EXPECT_FALSE(fs::exists(path("job-4/rank-0.flight")));
  EXPECT_TRUE(fs::exists(memory->file));
  remove_live_file(memory->file);
}

TEST(FlightFolders, FollowTheEnvironment) {
  const auto with = [](const std::string& name, const std::string& value) {
    return [=](const std::string& asked) {
      return asked == name ? std::optional<std::string>(value) : std::nullopt;
    };
  };
  const std::string own = "/syncline-" + std::to_string(::geteuid());
  const auto none = with("", "");
  EXPECT_EQ(live_folder(none), "/dev/shm" + own);
  EXPECT_EQ(dump_folder(none), "/tmp" + own);
  EXPECT_EQ(dump_folder(with("TMPDIR", "/var/tmp")), "/var/tmp" + own);
  EXPECT_EQ(dump_folder(with("SYNCLINE_FLIGHT_DIR", "/data")), "/data");
  EXPECT_EQ(live_folder(with("SYNCLINE_FLIGHT_DIR", "/data")), "/data/live");
}

}  // namespace
}  // namespace syncline::flight
