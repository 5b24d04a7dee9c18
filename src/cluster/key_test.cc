#include "cluster/key.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

namespace syncline::cluster {
namespace {

using testing::HasSubstr;

class KeyTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "syncline-key-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  Result<LoadedKey> load(std::map<std::string, std::string> vars) {
    return load_job_key([vars](const std::string& name) -> std::optional<std::string> {
      const auto it = vars.find(name);
      if (it == vars.end()) return std::nullopt;
      return it->second;
    });
  }
  std::string dir_;
};

TEST_F(KeyTest, LineRoundTripsAndOtherTextIsRefused) {
  const JobKey key = JobKey::generate().value();
  EXPECT_EQ(key.line().size(), 80u);
  EXPECT_EQ(JobKey::parse(key.line()).value().bytes(), key.bytes());
  EXPECT_FALSE(key.absent());
  EXPECT_TRUE(JobKey().absent());
  const std::string line = key.line();
  for (std::size_t n = 0; n < line.size() - 1; ++n)
    EXPECT_FALSE(JobKey::parse(line.substr(0, n)).ok());
  EXPECT_FALSE(JobKey::parse(line + "x").ok());
  EXPECT_FALSE(JobKey::parse("syncline-key-1 " + std::string(64, 'g')).ok());
  EXPECT_FALSE(JobKey::parse("syncline-key-1 " + std::string(64, '0')).ok());
}

TEST_F(KeyTest, GeneratedKeysDiffer) {
  EXPECT_NE(JobKey::generate().value().bytes(), JobKey::generate().value().bytes());
}

TEST_F(KeyTest, CreatedFileIsPrivateAndNeverReplaced) {
  const std::string path = dir_ + "/.config/syncline/job.key";
  const JobKey key = JobKey::generate().value();
  ASSERT_TRUE(create_key_file(path, key).ok());
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(read_key_file(path).value().bytes(), key.bytes());
  const Status again = create_key_file(path, JobKey::generate().value());
  EXPECT_THAT(again.message(), HasSubstr("exists already"));
  EXPECT_EQ(read_key_file(path).value().bytes(), key.bytes());

  const auto loaded = load({{"HOME", dir_}});
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(loaded.value().key.bytes(), key.bytes());
  EXPECT_EQ(loaded.value().source, path);
}

TEST_F(KeyTest, AbsentHomeFileMeansNoKeyButANamedOneMustExist) {
  EXPECT_TRUE(load({{"HOME", dir_}}).value().key.absent());
  EXPECT_TRUE(load({}).value().key.absent());
  const auto named = load({{"HOME", dir_}, {"SYNCLINE_KEY_FILE", dir_ + "/none"}});
  ASSERT_FALSE(named.ok());
  EXPECT_THAT(named.status().message(), HasSubstr(dir_ + "/none"));
}

TEST_F(KeyTest, OpenPermissionsAreRefusedWithTheFix) {
  const std::string path = dir_ + "/k";
  ASSERT_TRUE(create_key_file(path, JobKey::generate().value()).ok());
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  const auto result = load({{"SYNCLINE_KEY_FILE", path}});
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.status().message(), HasSubstr("chmod 600 " + path));
}

TEST_F(KeyTest, ForeignOwnerIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to give a file away";
  const std::string path = dir_ + "/k";
  ASSERT_TRUE(create_key_file(path, JobKey::generate().value()).ok());
  ASSERT_EQ(::chown(path.c_str(), 12345, 12345), 0);
  EXPECT_THAT(read_key_file(path).status().message(), HasSubstr("belongs to user 12345"));
}

TEST_F(KeyTest, ErrorsDoNotRepeatTheText) {
  const std::string path = dir_ + "/k";
  std::ofstream(path) << "syncline-key-1 topsecret\n";
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  const Status status = read_key_file(path).status();
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.message().find("topsecret"), std::string::npos);
  EXPECT_FALSE(read_key_file(dir_).ok());
}

TEST_F(KeyTest, DescriptorIsReadOnceAndClosed) {
  const JobKey key = JobKey::generate().value();
  int pipe_fds[2];
  ASSERT_EQ(::pipe2(pipe_fds, O_CLOEXEC), 0);
  // A number that nothing else in this process takes, since the test relies on it staying closed.
  const int fd = ::fcntl(pipe_fds[0], F_DUPFD_CLOEXEC, 700);
  ASSERT_GE(fd, 700);
  ::close(pipe_fds[0]);
  const std::string line = key.line();
  ASSERT_EQ(::write(pipe_fds[1], line.data(), line.size()), static_cast<ssize_t>(line.size()));
  ::close(pipe_fds[1]);
  for (int call = 0; call < 2; ++call) {
    const auto loaded = load({{"SYNCLINE_KEY_FD", std::to_string(fd)}, {"HOME", dir_}});
    ASSERT_TRUE(loaded.ok()) << loaded.status().to_string();
    EXPECT_EQ(loaded.value().key.bytes(), key.bytes());
  }
  EXPECT_EQ(::fcntl(fd, F_GETFD), -1);
  EXPECT_EQ(load({{"SYNCLINE_KEY_FD", "x"}}).status().code(), Code::kInvalidArgument);
  EXPECT_FALSE(load({{"SYNCLINE_KEY_FD", "999999"}}).ok());
}

TEST_F(KeyTest, MissingKeyNamesTheCommand) {
  EXPECT_THAT(missing_key_error("rank 0 at 10.0.0.1:5000 is on another host").message(),
              HasSubstr("syncline key create"));
}

}  // namespace
}  // namespace syncline::cluster
