#include "tools/run/agent.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "base/env.h"
#include "fmt/format.h"
#include "tools/cli/exit_code.h"
#include "tools/run/agent_link.h"
#include "tools/run/cpus.h"
#include "tools/run/flight_files.h"
#include "tools/run/host_address.h"
#include "tools/run/listener.h"
#include "tools/run/message.h"
#include "tools/run/rank_env.h"
#include "tools/run/rank_group.h"
#include "tools/run/strays.h"

namespace syncline::tools {
namespace {

constexpr Nanos kPass = kSecond;
constexpr Nanos kEndLimit = 5 * kSecond;  // for processes to vanish after SIGKILL

// Confined to the process's only thread.
class Agent {
 public:
  Agent();
  int run();

 private:
  using Kind = AgentEvent::Kind;

  void on_input();
  Status on_command(const AgentCommand& command);
  Status configure(const AgentConfig& config);
  Status start(const AgentCommand& command);
  Status start_rank(const AgentCommand& command, int local_rank);
  Status start_server(const AgentCommand& command, int server);
  void on_rank_exit(int rank, int code, int signal);
  void give_up(const Status& status);
  void send(const AgentEvent& event) { outgoing_ += encode(event); }
  void flush();
  void end_ranks();
  void tell_of_dumps();

  event::Poller poller_;
  FlightFiles flight_;
  RankGroup group_;
  FrameReader reader_;
  std::string outgoing_;
  std::optional<AgentConfig> config_;
  Listener listener_;
  int threads_ = 1;
  bool started_ = false;
  bool leaving_ = false;
};

Agent::Agent()
    : group_(poller_,
             {[this](int rank, int stream, std::string_view line) {
                AgentEvent event;
                event.kind = Kind::kLine;
                event.rank = rank;
                event.stream = stream;
                event.text = line;
                send(event);
              },
              [this](int rank, int code, int signal) { on_rank_exit(rank, code, signal); }}) {
  poller_.add(STDIN_FILENO, EPOLLIN, [this](std::uint32_t) { on_input(); });
}

int Agent::run() {
  sigset_t watched;
  sigemptyset(&watched);
  for (const int signo : {SIGTERM, SIGHUP, SIGINT}) sigaddset(&watched, signo);
  sigprocmask(SIG_BLOCK, &watched, nullptr);
  const int signals = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
  poller_.add(signals, EPOLLIN, [&](std::uint32_t) {
    signalfd_siginfo info;
    while (read(signals, &info, sizeof info) == sizeof info) {
      if (info.ssi_signo != SIGINT) leaving_ = true;  // Ctrl-C is the launcher's business
    }
  });
  while (!leaving_ && !(started_ && group_.all_ended())) {
    poller_.poll(kPass);
    group_.reap_strays();
    flush();
  }
  end_ranks();
  tell_of_dumps();
  const bool whole = !leaving_;
  AgentEvent done;
  done.kind = Kind::kDone;
  send(done);
  flush();
  poller_.remove(signals);
  close(signals);
  return whole ? kExitOk : kExitFailure;
}

void Agent::end_ranks() {
  group_.signal_all(SIGKILL);
  const Nanos limit = monotonic_now() + kEndLimit;
  while (!group_.all_ended() && monotonic_now() < limit) poller_.poll(100 * kMillisecond);
  kill_strays();
}

void Agent::on_input() {
  char bytes[64 * 1024];
  const ssize_t got = read(STDIN_FILENO, bytes, sizeof bytes);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) {
    poller_.remove(STDIN_FILENO);
    leaving_ = true;
    return;
  }
  Status status;
  const Status framing = reader_.feed(
      {bytes, static_cast<std::size_t>(got)}, [&](bool is_frame, std::string_view text) {
        if (!is_frame || !status.ok()) return;
        const Result<AgentCommand> command = decode_command(text);
        status = command.ok() ? on_command(command.value()) : command.status();
      });
  if (status.ok()) status = framing;
  if (!status.ok()) give_up(status);
}

Status Agent::on_command(const AgentCommand& command) {
  switch (command.kind) {
    case AgentCommand::Kind::kConfigure:
      return configure(command.config);
    case AgentCommand::Kind::kStart:
      return start(command);
    case AgentCommand::Kind::kSignal:
      if (command.signal == SIGUSR2) {  // not for the ranks: one that hangs would not answer
        flight_.dump_all();
        tell_of_dumps();
        return {};
      }
      group_.signal_all(command.signal);
      if (!started_) leaving_ = true;
      return {};
  }
  return {};
}

Status Agent::configure(const AgentConfig& config) {
  config_ = config;
  flight_.configure([&config](const std::string& name) -> std::optional<std::string> {
    for (auto it = config.variables.rbegin(); it != config.variables.rend(); ++it) {
      if (it->first == name) return it->second;
    }
    return env(name);
  });
  if (chdir(config.directory.c_str()) != 0) {
    return {Code::kFailedPrecondition,
            fmt::format("host {}: cannot enter folder {}: {}; it must exist on every host",
                        config.host, config.directory, std::strerror(errno))};
  }
  AgentEvent ready;
  ready.kind = Kind::kReady;
  ready.cores = usable_cores();
  ready.threads = threads_ = threads_per_rank(ready.cores, config.ranks);
  if (config.first_rank == 0) {
    const Result<std::string> address = listen_address(config);
    if (!address.ok()) return address.status();
    Result<Listener> listener = open_listener(address.value(), config.port_range);
    if (!listener.ok()) return listener.status();
    listener_ = listener.value();
    ready.rendezvous = listener_.uri;
    ready.master_port = listener_.master_port;
  }
  send(ready);
  return {};
}

Status Agent::start(const AgentCommand& command) {
  if (!config_.has_value() || started_) {
    return {Code::kInternal, "the launcher sent its messages out of order"};
  }
  started_ = true;
  for (int local_rank = 0; local_rank < config_->ranks; ++local_rank) {
    const Status status = start_rank(command, local_rank);
    if (!status.ok()) return status;
  }
  if (listener_.fd >= 0) close(listener_.fd);  // rank 0 has it now
  listener_.fd = -1;
  for (const int server : config_->local_servers) {
    const Status status = start_server(command, server);
    if (!status.ok()) return status;
  }
  return {};
}

// It works while ranks of its host wait.
Status Agent::start_server(const AgentCommand& command, int server) {
  const Result<int> key = memory_file("syncline-key", config_->key);
  if (!key.ok()) return key.status();
  RankPlace place;
  place.rendezvous = command.rendezvous;
  place.master_port = command.master_port;
  place.key_fd = key.value();
  SpawnSpec spec;
  spec.program = {own_path(), "serve"};
  if (!config_->server_program.empty()) spec.program = {config_->server_program};
  spec.variables = server_environment(*config_, place, server);
  spec.inherited = {key.value()};
  const auto& local = config_->local_servers;
  const auto index = std::find(local.begin(), local.end(), server) - local.begin();
  spec.cores = cores_of_server(static_cast<int>(index), static_cast<int>(local.size()),
                               config_->ranks, allowed_cores());
  const Status status = group_.start(config_->world_size + server, spec);
  close(key.value());
  return status;
}

Status Agent::start_rank(const AgentCommand& command, int local_rank) {
  const int rank = config_->first_rank + local_rank;
  const Result<int> key = memory_file("syncline-key", config_->key);
  if (!key.ok()) return key.status();
  RankPlace place;
  place.local_rank = local_rank;
  place.rendezvous = command.rendezvous;
  place.master_port = command.master_port;
  place.rendezvous_fd = rank == 0 ? listener_.fd : -1;
  place.key_fd = key.value();
  place.threads = threads_;
  place.flight_fd = flight_.create(rank);
  SpawnSpec spec;
  spec.program = config_->program;
  spec.variables = rank_environment(*config_, place);
  spec.inherited = {key.value()};
  if (rank == 0) spec.inherited.push_back(listener_.fd);
  if (place.flight_fd >= 0) spec.inherited.push_back(place.flight_fd);
  const Result<Binding> binding = parse_binding(config_->bind_to);
  if (!binding.ok()) return binding.status();
  spec.cores =
      cores_of_rank(binding.value(), local_rank, config_->ranks, allowed_cores(), numa_nodes());
  const Status status = group_.start(rank, spec);
  close(key.value());
  return status;
}

void Agent::on_rank_exit(int rank, int code, int signal) {
  flight_.on_exit(rank, code, signal);
  AgentEvent event;
  event.kind = Kind::kExit;
  event.rank = rank;
  event.code = code;
  event.signal = signal;
  send(event);
}

void Agent::tell_of_dumps() {
  AgentEvent event;
  event.text = flight_.take_news();
  if (!event.text.empty()) send(event);
}

void Agent::give_up(const Status& status) {
  AgentEvent event;
  event.kind = Kind::kFailed;
  event.text = status.message();
  event.code = exit_code_of(status);
  send(event);
  leaving_ = true;
}

void Agent::flush() {
  std::size_t sent = 0;
  while (sent < outgoing_.size()) {
    const ssize_t wrote = write(STDOUT_FILENO, outgoing_.data() + sent, outgoing_.size() - sent);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) {  // the launcher is gone
      leaving_ = true;
      break;
    }
    sent += static_cast<std::size_t>(wrote);
  }
  outgoing_.clear();
}

}  // namespace

int run_agent() {
  struct stat input {};
  if (fstat(STDIN_FILENO, &input) != 0 || !(S_ISFIFO(input.st_mode) || S_ISSOCK(input.st_mode))) {
    fmt::print(
        stderr,
        "syncline run --agent is started by the launcher only; use `syncline run -np N PROGRAM`\n");
    return kExitUsage;
  }
  signal(SIGPIPE, SIG_IGN);
  adopt_strays();
  Agent agent;
  return agent.run();
}

}  // namespace syncline::tools
