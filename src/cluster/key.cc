#include "cluster/key.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <map>

#include "base/mutex.h"

namespace syncline::cluster {
namespace {

constexpr std::string_view kPrefix = "syncline-key-1 ";
constexpr std::size_t kLineBytesMax = kPrefix.size() + 2 * JobKey::kBytes + 1;

Status refused(std::string message) {
  return Status(Code::kFailedPrecondition, std::move(message));
}

std::string errno_text() { return std::strerror(errno); }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// Reads to the end of `fd`, at most one byte more than a key line has.
Result<std::string> read_line(int fd, const std::string& what) {
  std::string text(kLineBytesMax + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(fd, text.data() + size, text.size() - size);
    if (got == 0) break;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      OPENSSL_cleanse(text.data(), text.size());
      return refused("cannot read the job key from " + what + ": " + errno_text());
    }
    size += static_cast<std::size_t>(got);
  }
  text.resize(size);
  return text;
}

Result<JobKey> parse_and_wipe(Result<std::string> text, const std::string& what) {
  if (!text.ok()) return text.status();
  auto key = JobKey::parse(text.value());
  OPENSSL_cleanse(text.value().data(), text.value().size());
  if (!key.ok()) return refused(what + " holds no job key: " + key.status().message());
  return key;
}

Status check_file(int fd, const std::string& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return refused("cannot inspect " + path + ": " + errno_text());
  if (!S_ISREG(info.st_mode)) return refused("job key " + path + " is no regular file");
  if (info.st_uid != ::geteuid()) {
    return refused("job key " + path + " belongs to user " + std::to_string(info.st_uid) +
                   ", not to you (user " + std::to_string(::geteuid()) +
                   "); make your own: syncline key create");
  }
  if ((info.st_mode & 077) != 0) {
    return refused("job key " + path + " is open to other users; fix: chmod 600 " + path);
  }
  return {};
}

// Keys taken from descriptors, which can be read only once.
struct DescriptorKeys {
  Mutex mutex;
  std::map<int, JobKey> keys SYNCLINE_GUARDED_BY(mutex);
};

Result<LoadedKey> from_descriptor(const std::string& text) {
  static DescriptorKeys taken;
  int fd = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), fd);
  if (error != std::errc() || end != text.data() + text.size() || fd < 0) {
    return Status(Code::kInvalidArgument, "SYNCLINE_KEY_FD='" + text + "' is no descriptor number");
  }
  const std::string what = "descriptor " + text + " (SYNCLINE_KEY_FD)";
  MutexLock lock(taken.mutex);
  if (const auto it = taken.keys.find(fd); it != taken.keys.end())
    return LoadedKey{it->second, what};
  auto key = parse_and_wipe(read_line(fd, what), what);
  if (!key.ok()) return key.status();
  ::close(fd);
  taken.keys.emplace(fd, key.value());
  return LoadedKey{key.value(), what};
}

// mkdir -p for the last two folders: $HOME/.config/syncline on a fresh account.
void make_parents(const std::string& path) {
  const auto last = path.rfind('/');
  if (last == std::string::npos || last == 0) return;
  const std::string parent = path.substr(0, last);
  const auto before = parent.rfind('/');
  if (before != std::string::npos && before != 0) ::mkdir(parent.substr(0, before).c_str(), 0700);
  ::mkdir(parent.c_str(), 0700);
}

// Makes a rename or a new file durable; best effort, some file systems refuse it.
void sync_folder_of(const std::string& path) {
  const auto last = path.rfind('/');
  const std::string parent = last == std::string::npos ? "." : path.substr(0, last + 1);
  const int fd = ::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

}  // namespace

JobKey::~JobKey() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }

bool JobKey::absent() const {
  return std::all_of(bytes_.begin(), bytes_.end(), [](unsigned char b) { return b == 0; });
}

Result<JobKey> JobKey::generate() {
  JobKey key;
  if (RAND_priv_bytes(key.bytes_.data(), kBytes) != 1) {
    return Status(Code::kInternal, "the system's random generator gave no bytes for a job key");
  }
  return key;
}

Result<JobKey> JobKey::parse(const std::string& line) {
  const Status bad(
      Code::kInvalidArgument,
      "expected one line 'syncline-key-1 <64 hex digits>'; make one: syncline key create");
  std::string_view text = line;
  if (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  if (text.size() != kPrefix.size() + 2 * kBytes || text.substr(0, kPrefix.size()) != kPrefix)
    return bad;
  text.remove_prefix(kPrefix.size());
  JobKey key;
  for (std::size_t i = 0; i < kBytes; ++i) {
    const int high = hex_digit(text[2 * i]);
    const int low = hex_digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return bad;
    key.bytes_[i] = static_cast<unsigned char>(high * 16 + low);
  }
  if (key.absent()) return bad;
  return key;
}

std::string JobKey::line() const {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text(kPrefix);
  for (const unsigned char b : bytes_) {
    text += kDigits[b >> 4];
    text += kDigits[b & 15];
  }
  return text + "\n";
}

Result<std::string> default_key_path(const EnvLookup& lookup) {
  if (const auto file = lookup("SYNCLINE_KEY_FILE"); file && !file->empty()) return *file;
  const auto home = lookup("HOME");
  if (!home || home->empty()) {
    return refused("neither SYNCLINE_KEY_FILE nor HOME is set: no place for a job key");
  }
  return *home + "/.config/syncline/job.key";
}

Result<JobKey> read_key_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return refused("cannot open job key " + path + ": " + errno_text());
  if (const Status status = check_file(fd, path); !status.ok()) {
    ::close(fd);
    return status;
  }
  auto key = parse_and_wipe(read_line(fd, path), path);
  ::close(fd);
  return key;
}

Result<LoadedKey> load_job_key(const EnvLookup& lookup) {
  if (const auto fd = lookup("SYNCLINE_KEY_FD"); fd && !fd->empty()) return from_descriptor(*fd);
  const auto path = default_key_path(lookup);
  if (!path.ok()) return LoadedKey{JobKey(), "none"};
  const auto named = lookup("SYNCLINE_KEY_FILE");
  const bool must_exist = named && !named->empty();
  if (!must_exist && ::access(path.value().c_str(), F_OK) != 0 &&
      (errno == ENOENT || errno == ENOTDIR)) {
    return LoadedKey{JobKey(), "none"};
  }
  const auto key = read_key_file(path.value());
  if (!key.ok()) return key.status();
  return LoadedKey{key.value(), path.value()};
}

Status create_key_file(const std::string& path, const JobKey& key) {
  make_parents(path);
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) {
    if (errno == EEXIST) {
      return refused("job key " + path +
                     " exists already and is kept; remove it first to replace it");
    }
    return refused("cannot create job key " + path + ": " + errno_text());
  }
  std::string line = key.line();
  const bool written = ::fchmod(fd, 0600) == 0 &&
                       ::write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size()) &&
                       ::fsync(fd) == 0;
  const std::string why = errno_text();
  OPENSSL_cleanse(line.data(), line.size());
  ::close(fd);
  if (!written) {
    ::unlink(path.c_str());
    return refused("cannot write job key " + path + ": " + why);
  }
  sync_folder_of(path);
  return {};
}

Status missing_key_error(const std::string& what) {
  return refused("no job key, and " + what +
                 "; make one that all ranks share (same file on every host): syncline key create");
}

}  // namespace syncline::cluster
