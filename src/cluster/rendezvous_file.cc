#include "cluster/rendezvous_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <map>
#include <sstream>

namespace syncline::cluster {
namespace {

using transport::tcp::Fd;

constexpr std::string_view kFirstLine = "syncline-rendezvous-1";
constexpr std::size_t kFileBytesMax = 4096;
constexpr Nanos kProbeLimit = 500 * kMillisecond;

Status refused(std::string message) {
  return Status(Code::kFailedPrecondition, std::move(message));
}

std::string errno_text() { return std::strerror(errno); }

// Values stay on their line.
std::string one_line(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) c = '?';
  }
  return text;
}

template <class T>
bool parse_number(const std::string& text, T& out, int base = 10) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out, base);
  return error == std::errc() && end == text.data() + text.size();
}

bool accepts_connections(const std::string& text) {
  const auto where = transport::tcp::parse_host_port(text);
  if (!where.ok()) return false;
  const auto address = transport::tcp::parse_literal(where.value().host, where.value().port);
  if (!address.ok()) return false;
  return transport::tcp::connect_any({address.value()}, monotonic_now() + kProbeLimit).ok();
}

// Seen from here: a process of the same host that is gone has certainly left the file behind.
bool owner_lives(const RendezvousFile& owner, const RendezvousFile& self) {
  const bool same_host = owner.host_id == self.host_id;
  if (same_host && ::kill(owner.pid, 0) != 0 && errno == ESRCH) return false;
  return accepts_connections(owner.address);
}

Status write_and_rename(const std::string& path, const std::string& text) {
  const std::string temporary = path + "." + std::to_string(::getpid()) + ".new";
  Fd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid())
    return refused("cannot write rendezvous file " + temporary + ": " + errno_text());
  const bool written =
      ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      ::fsync(fd.get()) == 0 && ::rename(temporary.c_str(), path.c_str()) == 0;
  if (written) return {};
  const std::string why = errno_text();
  ::unlink(temporary.c_str());
  return refused("cannot write rendezvous file " + path + ": " + why);
}

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

}  // namespace

std::string rendezvous_file_path(const std::string& folder, const std::string& run_id) {
  std::string name = run_id.empty() ? "default" : run_id.substr(0, 128);
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_' && c != '.') c = '_';
  }
  return folder + "/syncline-" + name + ".rendezvous";
}

std::string format(const RendezvousFile& file) {
  std::ostringstream out;
  out << kFirstLine << "\nrun_id " << one_line(file.run_id) << "\nincarnation " << std::hex
      << file.incarnation << std::dec << "\naddress " << file.address << "\npid " << file.pid
      << "\nhost " << one_line(file.host_name) << "\nhost_id " << one_line(file.host_id)
      << "\nend\n";
  return out.str();
}

std::optional<RendezvousFile> parse_rendezvous_file(const std::string& text) {
  std::istringstream in(text);
  std::string line;
  if (!std::getline(in, line) || line != kFirstLine) return std::nullopt;
  std::map<std::string, std::string> values;
  bool whole = false;
  while (!whole && std::getline(in, line)) {
    const auto space = line.find(' ');
    whole = line == "end";
    if (!whole && space == std::string::npos) return std::nullopt;
    if (!whole) values[line.substr(0, space)] = line.substr(space + 1);
  }
  RendezvousFile file;
  file.run_id = values["run_id"];
  file.address = values["address"];
  file.host_name = values["host"];
  file.host_id = values["host_id"];
  const bool numbers = parse_number(values["incarnation"], file.incarnation, 16) &&
                       parse_number(values["pid"], file.pid) && file.incarnation != 0;
  if (!whole || !numbers || file.address.empty()) return std::nullopt;
  return file;
}

std::optional<RendezvousFile> read_rendezvous_file(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return std::nullopt;
  std::string text(kFileBytesMax, '\0');
  const ssize_t got = ::read(fd.get(), text.data(), text.size());
  if (got <= 0) return std::nullopt;
  text.resize(static_cast<std::size_t>(got));
  return parse_rendezvous_file(text);
}

Status prepare_rendezvous_folder(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return refused("cannot create rendezvous folder " + folder + ": " + errno_text());
  }
  struct stat info {};
  if (::stat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return refused("rendezvous folder " + folder + " is no folder");
  }
  if (::access(folder.c_str(), W_OK) != 0) {
    return refused("rendezvous folder " + folder + " is not writable: " + errno_text());
  }
  return {};
}

Status publish_rendezvous_file(const std::string& path, const RendezvousFile& file) {
  const Fd folder(::open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Closing the descriptor unlocks. Some network file systems cannot lock: then the rename decides.
  if (folder.valid()) (void)::flock(folder.get(), LOCK_EX);
  const auto owner = read_rendezvous_file(path);
  if (owner && owner->incarnation != file.incarnation && owner_lives(*owner, file)) {
    return refused("another job uses " + path + " (rank 0 is pid " + std::to_string(owner->pid) +
                   " on " + owner->host_name +
                   "); give each job its own SYNCLINE_RUN_ID or folder");
  }
  return write_and_rename(path, format(file));
}

void withdraw_rendezvous_file(const std::string& path, const RendezvousFile& file) {
  const Fd folder(::open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.valid()) (void)::flock(folder.get(), LOCK_EX);
  const auto current = read_rendezvous_file(path);
  if (current && *current == file) ::unlink(path.c_str());
}

}  // namespace syncline::cluster
