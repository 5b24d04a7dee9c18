#include "base/flight_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <set>

#include "base/flight_format.h"

namespace syncline::flight {
namespace {

namespace fs = std::filesystem;

Status no_memory(const std::string& what) {
  return {Code::kExhausted, "no flight record: " + what + ": " + std::strerror(errno)};
}

// What exit() removes.
struct LiveFiles {
  std::mutex mutex;
  std::set<std::string> files;
  pid_t pid = 0;  // a forked child must not remove its parent's
  ~LiveFiles() {
    if (pid != ::getpid()) return;
    for (const std::string& file : files) {
      ::unlink(file.c_str());
      ::rmdir(fs::path(file).parent_path().c_str());
      ::rmdir(fs::path(file).parent_path().parent_path().c_str());
    }
  }
};

LiveFiles& live_files() {
  static LiveFiles files;
  return files;
}

std::shared_ptr<std::byte> map_memory(int fd, std::size_t bytes) {
  const int flags = (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED) | MAP_POPULATE;
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (memory == MAP_FAILED) return nullptr;
  return {static_cast<std::byte*>(memory), [bytes](std::byte* at) { ::munmap(at, bytes); }};
}

// Room that is not there would be a SIGBUS later.
Result<Memory> map_file(int fd, std::size_t bytes) {
  const int error = ::posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  if (error != 0) {
    errno = error;
    return no_memory("its file cannot grow");
  }
  Memory memory{map_memory(fd, bytes), ""};
  if (memory.bytes == nullptr) return no_memory("mmap");
  return memory;
}

std::string own(const std::string& base) { return base + "/syncline-" + std::to_string(geteuid()); }

}  // namespace

Result<Memory> private_memory(std::size_t bytes) {
  Memory memory{map_memory(-1, bytes), ""};
  if (memory.bytes == nullptr) return no_memory("mmap");
  return memory;
}

Result<Memory> inherited_memory(int fd, std::size_t bytes) {
  // A wrapper between launcher and rank may have closed it, and the number be another file's now.
  std::error_code error;
  const std::string what = fs::read_symlink("/proc/self/fd/" + std::to_string(fd), error).string();
  if (error || what.rfind(std::string("/memfd:") + kMemoryFileName, 0) != 0) {
    return Status(Code::kInvalidArgument,
                  "no flight record: descriptor " + std::to_string(fd) +
                      " is not the launcher's memory file; a program in between has closed it");
  }
  static std::mutex mutex;
  static std::weak_ptr<std::byte> used;
  const std::lock_guard lock(mutex);
  if (!used.expired()) {
    return Status(Code::kExhausted, "no flight record: another session of this process has it");
  }
  // A later session of the process takes it again, so the descriptor stays; a child must not.
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  Result<Memory> memory = map_file(fd, bytes);
  if (memory.ok()) used = memory->bytes;
  return memory;
}

Result<Memory> file_memory(const std::string& folder, const std::string& job, int rank,
                           std::size_t bytes) {
  const std::string place = folder + "/" + folder_name(job);
  const std::string file = place + "/rank-" + std::to_string(rank) + kFileEnding;
  int fd = -1;
  // Another rank that leaves may remove the empty folder in between.
  for (int tries = 0; fd < 0 && tries < 10; ++tries) {
    for (const std::string& part : {folder, place}) {
      const Status status = make_own_folder(part);
      if (!status.ok() && tries == 9) return status;
    }
    ::unlink(file.c_str());
    fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 && errno != ENOENT && errno != EEXIST) break;
  }
  if (fd < 0) return no_memory("cannot create " + file);
  Result<Memory> memory = map_file(fd, bytes);
  ::close(fd);
  if (!memory.ok()) {
    ::unlink(file.c_str());
    return memory;
  }
  memory->file = file;
  LiveFiles& live = live_files();
  const std::lock_guard lock(live.mutex);
  live.pid = ::getpid();
  live.files.insert(file);
  return memory;
}

void remove_live_file(const std::string& file) {
  LiveFiles& live = live_files();
  const std::lock_guard lock(live.mutex);
  if (live.files.erase(file) == 0) return;
  ::unlink(file.c_str());
  ::rmdir(fs::path(file).parent_path().c_str());
  ::rmdir(fs::path(file).parent_path().parent_path().c_str());
}

std::string live_folder(const EnvLookup& lookup) {
  const std::string chosen = lookup("SYNCLINE_FLIGHT_DIR").value_or("");
  return chosen.empty() ? own("/dev/shm") : chosen + "/live";
}

std::string dump_folder(const EnvLookup& lookup) {
  const std::string chosen = lookup("SYNCLINE_FLIGHT_DIR").value_or("");
  if (!chosen.empty()) return chosen;
  const std::string temporary = lookup("TMPDIR").value_or("");
  return own(temporary.empty() ? "/tmp" : temporary);
}

std::string folder_name(const std::string& job) {
  std::string name;
  for (const char c : job.substr(0, sizeof Header::job)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.';
    name += plain ? c : '_';
  }
  if (name.empty() || name.front() == '.') name = "job" + name;
  return name;
}

Status make_own_folder(const std::string& folder) {
  std::error_code ignored;
  fs::create_directories(fs::path(folder).parent_path(), ignored);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return no_memory("cannot make folder " + folder);
  }
  struct stat info {};
  if (::lstat(folder.c_str(), &info) != 0) return no_memory("cannot look at folder " + folder);
  // Where everybody may make folders, somebody may have made this one for us to write into.
  struct stat above {};
  const bool shared =
      ::stat(fs::path(folder).parent_path().c_str(), &above) != 0 || (above.st_mode & S_IWOTH) != 0;
  if (S_ISDIR(info.st_mode) && !shared) return {};
  const bool own = S_ISDIR(info.st_mode) && info.st_uid == ::geteuid();
  if (own && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0) return {};
  return {Code::kFailedPrecondition,
          "no flight record: " + folder +
              " must be a folder of this user that others cannot write to; remove it, or set "
              "SYNCLINE_FLIGHT_DIR"};
}

}  // namespace syncline::flight
