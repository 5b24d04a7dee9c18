#include "base/flight_dump.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/clock.h"
#include "base/flight_memory.h"

namespace syncline::flight {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPartEnding = ".part";
constexpr std::size_t kImageBytesMax = image_bytes(kRecordsMax, kRecordsMax);

Status cannot_write(const std::string& file) {
  return {Code::kExhausted, "no dump of the flight record: " + file + ": " + std::strerror(errno)};
}

bool write_whole(int fd, const std::vector<std::byte>& bytes) {
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t wrote = ::write(fd, bytes.data() + at, bytes.size() - at);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    at += static_cast<std::size_t>(wrote);
  }
  return true;
}

std::string text_of(const char* text, std::size_t size) { return {text, ::strnlen(text, size)}; }

// True if the process that wrote the record is still there.
bool is_written(const fs::path& file) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return false;
  Header header;
  const bool whole = ::read(fd, &header, sizeof header) == static_cast<ssize_t>(sizeof header);
  ::close(fd);
  return whole && header.dump.reason == Reason::kNone && header.pid != 0 &&
         ::kill(static_cast<pid_t>(header.pid), 0) == 0;
}

std::string part_of(const std::string& file, std::uint32_t pid) {
  return file + "." + std::to_string(pid) + kPartEnding;
}

// What the record's own process was writing when it was killed; while it lives it may go on.
void remove_unfinished(const std::string& file, std::uint32_t pid) {
  if (pid == 0 || ::kill(static_cast<pid_t>(pid), 0) == 0) return;
  ::unlink(part_of(file, pid).c_str());
}

std::vector<fs::directory_entry> entries_of(const fs::path& folder) {
  std::vector<fs::directory_entry> entries;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    entries.push_back(*entry);
  }
  return entries;
}

}  // namespace

Result<std::string> write_dump(const std::string& folder, std::vector<std::byte> image,
                               DumpNote note) {
  Header header;
  if (image.size() < sizeof header) return Status(Code::kCorrupt, "no flight record in the memory");
  std::memcpy(&header, image.data(), sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) {
    return Status(Code::kCorrupt, "no flight record in the memory");
  }
  note.dumped_mono = static_cast<std::uint64_t>(monotonic_now());
  note.dumped_wall = static_cast<std::uint64_t>(wall_now());
  header.dump = note;
  std::memcpy(image.data(), &header, sizeof header);

  const std::string job = folder_name(text_of(header.job, sizeof header.job));
  const std::string place = folder + "/" + job;
  for (const std::string& part : {folder, place}) {
    const Status status = make_own_folder(part);
    if (!status.ok()) return status;
  }
  const std::string file = place + "/rank-" + std::to_string(header.rank) + kFileEnding;
  const std::string part = part_of(file, static_cast<std::uint32_t>(::getpid()));
  const int fd = ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return cannot_write(part);
  const bool whole = write_whole(fd, image);
  if (::close(fd) != 0 || !whole || ::rename(part.c_str(), file.c_str()) != 0) {
    const Status status = cannot_write(file);
    ::unlink(part.c_str());
    return status;
  }
  remove_unfinished(file, header.pid);
  return file;
}

Result<std::string> write_dump(const std::string& folder, int fd, const DumpNote& note) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return cannot_write("the launcher's memory file");
  if (info.st_size == 0) return std::string();
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size > kImageBytesMax) return Status(Code::kCorrupt, "the flight record is too large");
  std::vector<std::byte> image(size);
  const ssize_t got = ::pread(fd, image.data(), size, 0);
  if (got < 0) return cannot_write("the launcher's memory file");
  image.resize(static_cast<std::size_t>(got));
  return write_dump(folder, std::move(image), note);
}

void prune(const std::string& folder, std::size_t jobs_max) {
  std::error_code error;
  std::vector<std::pair<fs::file_time_type, fs::path>> jobs;
  for (const fs::directory_entry& entry : entries_of(folder)) {
    if (entry.is_symlink(error) || !entry.is_directory(error)) continue;
    jobs.emplace_back(entry.last_write_time(error), entry.path());
  }
  if (jobs.size() <= jobs_max) return;
  std::sort(jobs.begin(), jobs.end());
  jobs.resize(jobs.size() - jobs_max);
  for (const auto& [time, job] : jobs) {
    for (const fs::directory_entry& entry : entries_of(job)) {
      const fs::path ending = entry.path().extension();
      if (ending != kFileEnding && ending != kPartEnding) continue;
      if (is_written(entry.path())) continue;
      ::unlink(entry.path().c_str());
    }
    ::rmdir(job.c_str());
  }
}

}  // namespace syncline::flight
