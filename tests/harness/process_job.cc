#include "tests/harness/process_job.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>

namespace syncline::harness {
namespace {

// A socket of 127.0.0.1 that listens on a port of the kernel's choice.
int listen_anywhere(std::string& rendezvous) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);  // inherited: no SOCK_CLOEXEC
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (fd < 0 || ::bind(fd, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::listen(fd, 128) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    throw std::runtime_error("cannot listen on 127.0.0.1");
  }
  rendezvous = "tcp://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  return fd;
}

void set(const std::string& name, const std::string& value) {
  ::setenv(name.c_str(), value.c_str(), 1);
}

}  // namespace

void* shared_memory(std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return memory;
}

void release_shared_memory(void* memory, std::size_t bytes) { ::munmap(memory, bytes); }

ProcessJob::ProcessJob(int ranks, RankBody body, ProcessOptions options)
    : options_(std::move(options)) {
  start(ranks, [this, body = std::move(body)](int) {
    Session session = init(options_.session);
    body(session);
  });
}

ProcessJob::ProcessJob(int ranks, std::function<void(int rank)> body, ProcessOptions options)
    : options_(std::move(options)) {
  start(ranks, body);
}

void ProcessJob::start(int ranks, const std::function<void(int rank)>& body) {
  deadline_ = std::chrono::steady_clock::now() + options_.limit;
  std::string rendezvous;
  const int listener = listen_anywhere(rendezvous);
  char folder[] = "/tmp/syncline-test-XXXXXX";
  if (::mkdtemp(folder) == nullptr) throw std::runtime_error("cannot make a folder in /tmp");
  flight_folder_ = folder;
  std::fflush(nullptr);
  for (int r = 0; r < ranks; ++r) {
    Rank rank;
    rank.log_fd = ::memfd_create("syncline-test-log", MFD_CLOEXEC);
    ranks_.push_back(rank);
  }
  for (int r = 0; r < ranks; ++r) {
    const pid_t pid = ::fork();
    if (pid == 0) run_child(r, listener, rendezvous, body);
    if (pid < 0) throw std::runtime_error("cannot fork");
    ranks_[static_cast<std::size_t>(r)].pid = pid;
  }
  ::close(listener);
}

void ProcessJob::run_child(int rank, int listener, const std::string& rendezvous,
                           const std::function<void(int rank)>& body) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::dup2(ranks_[static_cast<std::size_t>(rank)].log_fd, STDERR_FILENO);
  for (const Rank& other : ranks_) ::close(other.log_fd);
  const std::string size = std::to_string(ranks_.size());
  set("SYNCLINE_RANK", std::to_string(rank));
  set("SYNCLINE_WORLD_SIZE", size);
  set("SYNCLINE_LOCAL_RANK", std::to_string(rank));
  set("SYNCLINE_LOCAL_WORLD_SIZE", size);
  set("SYNCLINE_RENDEZVOUS", rendezvous);
  set("SYNCLINE_TRANSPORT", options_.transport);
  set("SYNCLINE_FLIGHT_DIR", flight_folder_);
  if (rank == 0) {
    set("SYNCLINE_RENDEZVOUS_FD", std::to_string(listener));
  } else {
    ::close(listener);
  }
  for (const auto& [name, value] : options_.env) set(name, value);
  bool threw = false;
  try {
    body(rank);
  } catch (const std::exception& error) {
    threw = true;
    std::printf("rank %d threw: %s\n", rank, error.what());
  }
  std::fflush(nullptr);
  ::_exit(threw || ::testing::Test::HasFailure() ? 1 : 0);
}

ProcessJob::~ProcessJob() {
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    Rank& rank = ranks_[r];
    if (!rank.waited && rank.pid > 0) {
      ::kill(rank.pid, SIGKILL);
      ::waitpid(rank.pid, nullptr, 0);
    }
    ::close(rank.log_fd);
  }
  std::error_code ignored;
  std::filesystem::remove_all(flight_folder_, ignored);
}

void ProcessJob::signal(int rank, int number) { ::kill(pid(rank), number); }

Exit ProcessJob::wait(int rank) {
  Rank& which = ranks_[static_cast<std::size_t>(rank)];
  if (which.waited) return which.exit;
  int status = 0;
  which.exit.ended = true;
  while (::waitpid(which.pid, &status, WNOHANG) != which.pid) {
    if (std::chrono::steady_clock::now() > deadline_) {
      which.exit.ended = false;
      ::kill(which.pid, SIGKILL);
      ::waitpid(which.pid, &status, 0);
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  which.waited = true;
  if (WIFEXITED(status)) which.exit.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) which.exit.signal = WTERMSIG(status);
  return which.exit;
}

void ProcessJob::expect_success() {
  for (int r = 0; r < size(); ++r) {
    const Exit exit = wait(r);
    if (exit.code == 0) continue;
    ADD_FAILURE() << "rank " << r
                  << (exit.ended ? " ended with code " + std::to_string(exit.code) + ", signal " +
                                       std::to_string(exit.signal)
                                 : std::string(" hung and was killed"))
                  << "; its log:\n"
                  << log(r);
  }
}

std::string ProcessJob::log(int rank) const {
  const int fd = ranks_[static_cast<std::size_t>(rank)].log_fd;
  std::string text;
  char part[4096];
  for (ssize_t got; (got = ::pread(fd, part, sizeof part, static_cast<off_t>(text.size()))) > 0;) {
    text.append(part, static_cast<std::size_t>(got));
  }
  return text;
}

}  // namespace syncline::harness
