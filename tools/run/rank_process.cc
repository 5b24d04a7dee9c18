#include "tools/run/rank_process.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>

#include "base/env.h"
#include "fmt/format.h"

namespace syncline::tools {
namespace {

Status exhausted(const char* what) {
  return {Code::kExhausted, fmt::format("cannot start a rank: {}: {}", what, std::strerror(errno))};
}

Status exec_failed(const std::string& program, int error) {
  const char* const hint = error == EACCES    ? "; make it executable (chmod +x)"
                           : error == ENOEXEC ? "; a script needs a first line such as #!/bin/sh"
                           : error == ENOENT && program.find('/') == std::string::npos
                               ? "; a program of the current folder is called ./"
                               : "";
  return {Code::kInvalidArgument,
          fmt::format("cannot start program '{}': {}{}{}", program, std::strerror(error), hint,
                      std::string_view(hint).ends_with("./") ? program : "")};
}

std::vector<std::string> environment_of(const Variables& variables) {
  std::map<std::string, std::string> merged;
  for_each_env([&](const std::string& name, const std::string& value) { merged[name] = value; });
  // Descriptors of a launcher around this one mean nothing here.
  merged.erase("SYNCLINE_RENDEZVOUS_FD");
  merged.erase("SYNCLINE_KEY_FD");
  merged.erase("SYNCLINE_FLIGHT_FD");
  // Nor does the place of a process in the job around it.
  for (const char* name : {"SYNCLINE_RANK", "SYNCLINE_LOCAL_RANK", "SYNCLINE_LOCAL_WORLD_SIZE",
                           "SYNCLINE_SERVERS", "SYNCLINE_SERVER_ID"}) {
    merged.erase(name);
  }
  for (const auto& [name, value] : variables) merged[name] = value;
  std::vector<std::string> entries;
  for (const auto& [name, value] : merged) entries.push_back(name + '=' + value);
  return entries;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (std::string& text : strings) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

struct Pipes {
  int out[2] = {-1, -1};
  int err[2] = {-1, -1};
  int failure[2] = {-1, -1};  // errno of a failed exec; closed by a successful one

  bool open() {
    return pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0 &&
           pipe2(failure, O_CLOEXEC) == 0;
  }
  void close_ends(int end) {
    for (int* both : {out, err, failure}) close_one(both[end]);
  }
  static void close_one(int& fd) {
    if (fd >= 0) ::close(fd);
    fd = -1;
  }
};

void bind_to_cores(const std::vector<int>& cores) {
  if (cores.empty()) return;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (const int core : cores) CPU_SET(static_cast<std::size_t>(core), &mask);
  sched_setaffinity(0, sizeof mask, &mask);  // a refusal leaves the rank unbound
}

// Runs in the child, between fork and exec.
[[noreturn]] void become_rank(const SpawnSpec& spec, Pipes& pipes, pid_t parent, char* const* argv,
                              char* const* envp) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  sigset_t none;
  sigemptyset(&none);
  for (int signo = 1; signo < NSIG; ++signo) signal(signo, SIG_DFL);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int null = open("/dev/null", O_RDONLY);
  dup2(null, STDIN_FILENO);
  if (null > STDERR_FILENO) close(null);
  dup2(pipes.out[1], STDOUT_FILENO);
  dup2(pipes.err[1], STDERR_FILENO);
  for (const int fd : spec.inherited) fcntl(fd, F_SETFD, 0);
  bind_to_cores(spec.cores);
  execvpe(argv[0], argv, envp);
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(pipes.failure[1], &error, sizeof error);
  _exit(127);
}

}  // namespace

Result<Spawned> spawn(const SpawnSpec& spec) {
  std::vector<std::string> arguments = spec.program;
  std::vector<std::string> environment = environment_of(spec.variables);
  const std::vector<char*> argv = pointers(arguments);
  const std::vector<char*> envp = pointers(environment);
  Pipes pipes;
  if (!pipes.open()) return exhausted("pipe");
  const pid_t parent = getpid();
  Spawned child;
  child.pid = fork();
  if (child.pid < 0) return exhausted("fork");
  if (child.pid == 0) become_rank(spec, pipes, parent, argv.data(), envp.data());
  setpgid(child.pid, child.pid);  // both sides set it: whoever comes first
  pipes.close_ends(1);
  int error = 0;
  ssize_t got;
  do {
    got = read(pipes.failure[0], &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  Pipes::close_one(pipes.failure[0]);
  if (got == sizeof error) {
    waitpid(child.pid, nullptr, 0);
    pipes.close_ends(0);
    return exec_failed(spec.program[0], error);
  }
  child.pidfd =
      static_cast<int>(syscall(SYS_pidfd_open, child.pid, 0));  // glibc 2.36 declares it for C only
  if (child.pidfd < 0) return exhausted("pidfd_open");
  child.out = pipes.out[0];
  child.err = pipes.err[0];
  fcntl(child.out, F_SETFL, O_NONBLOCK);
  fcntl(child.err, F_SETFL, O_NONBLOCK);
  return child;
}

Result<int> memory_file(const char* name, const std::string& text) {
  const int fd = memfd_create(name, MFD_CLOEXEC);
  if (fd < 0) return exhausted("memfd_create");
  const auto size = static_cast<ssize_t>(text.size());
  if (write(fd, text.data(), text.size()) != size || lseek(fd, 0, SEEK_SET) != 0) {
    return exhausted("write to a memory file");
  }
  return fd;
}

}  // namespace syncline::tools
