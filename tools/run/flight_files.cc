#include "tools/run/flight_files.h"

#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "base/flight_dump.h"
#include "base/flight_memory.h"
#include "fmt/format.h"
#include "tools/cli/exit_code.h"

namespace syncline::tools {
namespace {

constexpr std::size_t kFlightJobsKept = 20;

// 'R', 'S', 'T', ...; 0 if there is no such process. The name in parentheses may hold anything.
std::uint32_t process_state(std::uint32_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t end = text.rfind(") ");
  return end == std::string::npos || end + 2 >= text.size()
             ? 0
             : static_cast<unsigned char>(text[end + 2]);
}

// The process that writes the record may be a descendant of the rank that we started.
std::uint32_t writer_of(int fd) {
  flight::Header header;
  return pread(fd, &header, sizeof header, 0) == static_cast<ssize_t>(sizeof header) ? header.pid
                                                                                     : 0;
}

}  // namespace

FlightFiles::~FlightFiles() {
  for (const auto& [rank, fd] : descriptors_) close(fd);
}

void FlightFiles::configure(const EnvLookup& lookup) {
  on_ = lookup("SYNCLINE_FLIGHT").value_or("") != "off";
  folder_ = flight::dump_folder(lookup);
}

int FlightFiles::create(int rank) {
  if (!on_) return -1;
  const int fd = memfd_create(flight::kMemoryFileName, MFD_CLOEXEC);
  if (fd >= 0) descriptors_[rank] = fd;
  return fd;
}

void FlightFiles::on_exit(int rank, int code, int signal) {
  const auto found = descriptors_.find(rank);
  if (found == descriptors_.end()) return;
  if (signal != 0 || (code != kExitOk && code != kExitRequeue)) {
    flight::DumpNote note;
    note.reason = flight::Reason::kProcessEnd;
    note.signal = signal;
    note.exit_code = signal != 0 ? -1 : code;
    write(rank, note);
  }
  close(found->second);
  descriptors_.erase(found);
}

void FlightFiles::dump_all() {
  for (const auto& [rank, fd] : descriptors_) {
    flight::DumpNote note;
    note.reason = flight::Reason::kRequest;
    note.process_state = process_state(writer_of(fd));
    write(rank, note);
  }
}

void FlightFiles::write(int rank, flight::DumpNote note) {
  const Result<std::string> file = flight::write_dump(folder_, descriptors_.at(rank), note);
  if (!file.ok()) {
    failed_ = file.status().message();
  } else if (!file.value().empty()) {  // else the program never opened a session
    written_.insert(rank);
    place_ = file.value().substr(0, file.value().rfind('/'));
  }
}

std::string FlightFiles::take_news() {
  std::string news = failed_;
  if (!written_.empty()) {
    news = fmt::format("flight records of ranks {}: {}; read them with: syncline doctor --dump {}",
                       rank_list(written_), place_, place_);
    flight::prune(folder_, kFlightJobsKept);
  }
  written_.clear();
  failed_.clear();
  return news;
}

std::string rank_list(const std::set<int>& ranks) {
  std::string text;
  for (auto at = ranks.begin(); at != ranks.end();) {
    const int first = *at;
    int last = first;
    while (++at != ranks.end() && *at == last + 1) last = *at;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", first);
    if (last > first) text += fmt::format("-{}", last);
  }
  return text;
}

}  // namespace syncline::tools
