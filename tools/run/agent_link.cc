#include "tools/run/agent_link.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "base/clock.h"
#include "fmt/format.h"
#include "tools/run/output.h"

namespace syncline::tools {
namespace {

constexpr int kPipeBytes = 1 << 20;  // a whole configuration fits while ssh still connects
constexpr Nanos kFinishLimit = kSecond;

// One word of a remote shell's command line.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'')
      result += "'\\''";
    else
      result += c;
  }
  return result + "'";
}

[[noreturn]] void become_agent(int in, int out, char** argv) {
  setpgid(0, 0);  // Ctrl-C reaches the launcher only
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  execvp(argv[0], argv);
  fmt::print(stderr, "syncline run: cannot start '{}': {}\n", argv[0], std::strerror(errno));
  _exit(127);
}

}  // namespace

std::string signal_name(int signo) {
  const char* const name = sigabbrev_np(signo);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signo);
}

std::string own_path() {
  std::error_code error;
  const std::string path = std::filesystem::read_symlink("/proc/self/exe", error).string();
  return error ? "syncline" : path;
}

std::vector<std::string> AgentLink::command(const std::string& host, const std::string& rsh) {
  if (host.empty()) return {own_path(), "run", "--agent"};
  std::vector<std::string> words;
  std::istringstream stream(rsh);
  for (std::string word; stream >> word;) words.push_back(word);
  words.push_back(host);
  words.push_back(quoted(own_path()) + " run --agent");
  return words;
}

AgentLink::~AgentLink() { finish(); }

Status AgentLink::start(const std::vector<std::string>& command) {
  std::vector<std::string> words = command;
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  int in[2] = {-1, -1};
  int out[2] = {-1, -1};
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0 || (pid_ = fork()) < 0) {
    return {Code::kExhausted, fmt::format("cannot start an agent: {}", std::strerror(errno))};
  }
  if (pid_ == 0) become_agent(in[0], out[1], argv.data());
  setpgid(pid_, pid_);
  close(in[0]);
  close(out[1]);
  in_ = in[1];
  out_ = out[0];
  fcntl(in_, F_SETPIPE_SZ, kPipeBytes);
  fcntl(out_, F_SETPIPE_SZ, kPipeBytes);
  fcntl(out_, F_SETFL, O_NONBLOCK);
  poller_.add(out_, EPOLLIN, [this](std::uint32_t) { on_output(); });
  return {};
}

void AgentLink::send(const AgentCommand& command) {
  if (in_ >= 0) write_all(in_, encode(command));
}

void AgentLink::on_output() {
  char bytes[64 * 1024];
  const ssize_t got = read(out_, bytes, sizeof bytes);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) return close_output({});
  Status status;
  const Status framing = reader_.feed({bytes, static_cast<std::size_t>(got)},
                                      [&](bool is_frame, std::string_view text) {
                                        if (!status.ok()) return;
                                        if (!is_frame) return events_.noise(text);
                                        const Result<AgentEvent> event = decode_event(text);
                                        if (event.ok()) {
                                          events_.event(event.value());
                                        } else {
                                          status = event.status();
                                        }
                                      });
  if (status.ok()) status = framing;
  if (!status.ok()) close_output(status);
}

void AgentLink::close_output(const Status& why) {
  if (out_ < 0) return;
  poller_.remove(out_);
  close(out_);
  out_ = -1;
  events_.closed(why);
}

std::string AgentLink::finish() {
  if (in_ >= 0) close(in_);
  in_ = -1;
  if (out_ >= 0) {
    poller_.remove(out_);
    close(out_);
    out_ = -1;
  }
  if (pid_ < 0) return "";
  int status = 0;
  const Nanos limit = monotonic_now() + kFinishLimit;
  while (waitpid(pid_, &status, WNOHANG) == 0) {
    if (monotonic_now() > limit) kill(-pid_, SIGKILL);
    ::poll(nullptr, 0, 2);
  }
  pid_ = -1;
  return WIFSIGNALED(status) ? signal_name(WTERMSIG(status))
                             : fmt::format("exit code {}", WEXITSTATUS(status));
}

}  // namespace syncline::tools
