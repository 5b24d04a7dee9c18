#include "tools/run/rank_group.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace syncline::tools {
namespace {

constexpr int kReadBytes = 64 * 1024;
constexpr int kReadsPerWakeMax = 64;  // a rank that never stops printing must not starve the rest

}  // namespace

RankGroup::~RankGroup() {
  signal_all(SIGKILL);
  for (auto& [rank, entry] : ranks_) {
    close_stream(rank, 0);
    close_stream(rank, 1);
    if (!entry.ended) {
      poller_.remove(entry.child.pidfd);
      close(entry.child.pidfd);
    }
  }
}

Status RankGroup::start(int rank, const SpawnSpec& spec) {
  Result<Spawned> child = spawn(spec);
  if (!child.ok()) return child.status();
  Rank& entry = ranks_[rank];
  entry.child = child.value();
  ++running_;
  poller_.add(entry.child.out, EPOLLIN, [this, rank](std::uint32_t) { read_stream(rank, 0); });
  poller_.add(entry.child.err, EPOLLIN, [this, rank](std::uint32_t) { read_stream(rank, 1); });
  poller_.add(entry.child.pidfd, EPOLLIN, [this, rank](std::uint32_t) { on_exit(rank); });
  return {};
}

void RankGroup::signal_all(int signo) {
  for (const auto& [rank, entry] : ranks_) {
    if (entry.ended) continue;
    kill(-entry.child.pid, signo);
    if (signo != SIGKILL) kill(-entry.child.pid, SIGCONT);  // a stopped process would not see it
  }
}

void RankGroup::read_stream(int rank, int stream) {
  Rank& entry = ranks_.at(rank);
  const int fd = stream == 0 ? entry.child.out : entry.child.err;
  if (fd < 0) return;
  const auto sink = [&](std::string_view line) { events_.line(rank, stream + 1, line); };
  char bytes[kReadBytes];
  for (int reads = 0; reads < kReadsPerWakeMax; ++reads) {
    const ssize_t got = read(fd, bytes, sizeof bytes);
    if (got > 0) {
      entry.lines[stream].feed({bytes, static_cast<std::size_t>(got)}, sink);
    } else if (got == 0) {
      entry.lines[stream].flush(sink);
      return close_stream(rank, stream);
    } else if (errno != EINTR) {
      return;
    }
  }
}

void RankGroup::close_stream(int rank, int stream) {
  Rank& entry = ranks_.at(rank);
  int& fd = stream == 0 ? entry.child.out : entry.child.err;
  if (fd < 0) return;
  poller_.remove(fd);
  close(fd);
  fd = -1;
}

void RankGroup::on_exit(int rank) {
  Rank& entry = ranks_.at(rank);
  siginfo_t info{};
  // The zombie keeps the group's number ours until the group is dead.
  if (waitid(P_PIDFD, static_cast<id_t>(entry.child.pidfd), &info, WEXITED | WNOWAIT | WNOHANG) !=
          0 ||
      info.si_pid == 0) {
    return;
  }
  kill(-entry.child.pid, SIGKILL);
  for (const int stream : {0, 1}) {
    read_stream(rank, stream);
    entry.lines[stream].flush([&](std::string_view line) { events_.line(rank, stream + 1, line); });
    close_stream(rank, stream);
  }
  waitpid(entry.child.pid, nullptr, 0);
  poller_.remove(entry.child.pidfd);
  close(entry.child.pidfd);
  entry.ended = true;
  --running_;
  const bool exited = info.si_code == CLD_EXITED;
  events_.exit(rank, exited ? info.si_status : 0, exited ? 0 : info.si_status);
}

bool RankGroup::is_running_rank(pid_t pid) const {
  for (const auto& [rank, entry] : ranks_) {
    if (!entry.ended && entry.child.pid == pid) return true;
  }
  return false;
}

void RankGroup::reap_strays() {
  while (true) {
    siginfo_t info{};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOWAIT | WNOHANG) != 0 || info.si_pid == 0) return;
    if (is_running_rank(info.si_pid)) return;  // its own descriptor tells
    waitpid(info.si_pid, nullptr, WNOHANG);
  }
}

}  // namespace syncline::tools
