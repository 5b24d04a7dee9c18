#include "tools/run/launcher.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <random>

#include "cluster/key.h"
#include "fmt/format.h"
#include "tools/cli/exit_code.h"
#include "tools/run/agent_link.h"
#include "tools/run/output.h"
#include "tools/run/report.h"
#include "tools/run/strays.h"

namespace syncline::tools {
namespace {

struct Host {
  std::string label;
  HostPlacement placement;
  std::unique_ptr<AgentLink> link;
  bool ready = false;
  bool done = false;
};

// Blocked signals as a readable descriptor. Confined.
class Signals {
 public:
  Signals() {
    sigset_t watched;
    sigemptyset(&watched);
    for (const int signo : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) sigaddset(&watched, signo);
    sigprocmask(SIG_BLOCK, &watched, nullptr);
    signal(SIGPIPE, SIG_IGN);
    fd_ = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  ~Signals() { close(fd_); }
  int fd() const { return fd_; }

 private:
  int fd_;
};

std::string random_id() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

std::string short_host_name() {
  char name[256] = "localhost";
  gethostname(name, sizeof name - 1);
  const std::string full = name;
  return full.substr(0, full.find('.'));
}

std::string label_of(const HostPlacement& placement) {
  return placement.host.empty() ? short_host_name() : placement.host;
}

// The processes of a host, ranks first.
std::vector<int> numbers_of(const HostPlacement& placement, int ranks) {
  std::vector<int> numbers;
  for (int local = 0; local < placement.ranks; ++local) {
    numbers.push_back(placement.first_rank + local);
  }
  for (const int server : placement.servers) numbers.push_back(ranks + server);
  return numbers;
}

void say(const std::string& text) { write_all(STDERR_FILENO, "syncline run: " + text + "\n"); }

// Confined.
class Launcher {
 public:
  Launcher(const LaunchOptions& options, std::unique_ptr<Output> output,
           std::vector<std::string> hosts_by_number, std::string key)
      : options_(options),
        output_(std::move(output)),
        hosts_by_number_(std::move(hosts_by_number)),
        key_(std::move(key)),
        begin_(monotonic_now()),
        supervisor_(ranks(), options.grace, options.time_limit, begin_, options.servers,
                    options.aggregators) {}

  int run();

 private:
  int ranks() const { return static_cast<int>(hosts_by_number_.size()) - options_.servers; }
  Status start_agents();
  AgentConfig config_of(const Host& host, int index) const;
  void on_event(Host& host, const AgentEvent& event);
  void on_closed(Host& host, const Status& why);
  void note_exit(int number, RankEnd end);
  void on_signal();
  void on_ready(Host& host, const AgentEvent& event);
  void start_ranks();
  void signal_ranks(int signo);
  void act(Nanos now);
  void fail(int code, const std::string& text);
  bool over() const;
  int finish();

  const LaunchOptions& options_;
  std::unique_ptr<Output> output_;
  std::vector<std::string> hosts_by_number_;  // of ranks, then of servers
  std::string key_;
  Nanos begin_;
  Signals signals_;
  event::Poller poller_;
  Supervisor supervisor_;
  std::deque<Host> hosts_;
  std::string rendezvous_;
  int master_port_ = 0;
  bool started_ = false;
  std::optional<int> fatal_;  // the launch itself failed: exit code
  std::string fatal_text_;
};

AgentConfig Launcher::config_of(const Host& host, int index) const {
  AgentConfig config;
  config.host = host.placement.host.empty() ? host.label : host.placement.host;
  config.host_index = index;
  config.host_count = static_cast<int>(options_.hosts.size());
  config.rank_hosts =
      static_cast<int>(std::count_if(options_.hosts.begin(), options_.hosts.end(),
                                     [](const HostPlacement& each) { return each.ranks > 0; }));
  config.world_size = ranks();
  config.servers = options_.servers;
  config.server_program = options_.server_program;
  config.local_servers = host.placement.servers;
  config.first_rank = host.placement.first_rank;
  config.ranks = host.placement.ranks;
  config.program = options_.program;
  config.directory = std::filesystem::current_path().string();
  config.variables = options_.variables;
  config.key = key_;
  config.ifname = options_.ifname;
  config.port_range = options_.port_range;
  config.bind_to = options_.bind_to;
  config.keep_omp_threads = options_.keep_omp_threads;
  return config;
}

Status Launcher::start_agents() {
  const std::string run_id = random_id();
  for (const HostPlacement& placement : options_.hosts) {
    Host& host = hosts_.emplace_back();
    host.placement = placement;
    host.label = label_of(placement);
    host.link = std::make_unique<AgentLink>(
        poller_,
        AgentLink::Events{
            [this, &host](const AgentEvent& event) { on_event(host, event); },
            [&host](std::string_view line) { say(fmt::format("{}: {}", host.label, line)); },
            [this, &host](const Status& why) { on_closed(host, why); }});
    const Status status = host.link->start(AgentLink::command(placement.host, options_.rsh));
    if (!status.ok()) return status;
    AgentCommand command;
    command.kind = AgentCommand::Kind::kConfigure;
    command.config = config_of(host, static_cast<int>(hosts_.size()) - 1);
    command.config.run_id = run_id;
    host.link->send(command);
  }
  return {};
}

void Launcher::on_event(Host& host, const AgentEvent& event) {
  const auto is_of_host = [&] {
    const std::vector<int> numbers = numbers_of(host.placement, ranks());
    return std::find(numbers.begin(), numbers.end(), event.rank) != numbers.end();
  };
  switch (event.kind) {
    case AgentEvent::Kind::kReady:
      return on_ready(host, event);
    case AgentEvent::Kind::kLine:
      if (is_of_host()) output_->line(event.rank, event.stream, event.text);
      return;
    case AgentEvent::Kind::kNotice:
      return say(fmt::format("{}: {}", host.label, event.text));
    case AgentEvent::Kind::kExit:
      if (is_of_host()) note_exit(event.rank, {event.code, event.signal, false});
      return;
    case AgentEvent::Kind::kFailed:
      return fail(event.code, fmt::format("{} (on {})", event.text, host.label));
    case AgentEvent::Kind::kDone:
      host.done = true;
      return;
  }
}

void Launcher::on_ready(Host& host, const AgentEvent& event) {
  host.ready = true;
  if (!event.rendezvous.empty()) {
    rendezvous_ = event.rendezvous;
    master_port_ = event.master_port;
  }
  if (host.placement.first_rank == 0 && !options_.keep_omp_threads && !options_.quiet) {
    say(
        fmt::format("OMP_NUM_THREADS={} in each rank ({} usable cores, {} ranks on {}); set it "
                    "yourself to override",
                    event.threads, event.cores, host.placement.ranks, host.label));
  }
  if (std::all_of(hosts_.begin(), hosts_.end(), [](const Host& h) { return h.ready; }))
    start_ranks();
}

void Launcher::start_ranks() {
  started_ = true;
  AgentCommand command;
  command.kind = AgentCommand::Kind::kStart;
  command.rendezvous = rendezvous_;
  command.master_port = master_port_;
  for (Host& host : hosts_) host.link->send(command);
}

void Launcher::on_closed(Host& host, const Status& why) {
  if (!why.ok()) say(fmt::format("{}: {}", host.label, why.message()));
  if (host.done || fatal_.has_value()) return;
  if (!started_) {
    const std::string end = host.link->finish();
    const std::string path = own_path();
    return fail(
        kExitEnvironment,
        fmt::format("the agent on {} did not start ({}); try: {} {} {} --version", host.label, end,
                    options_.rsh.substr(0, options_.rsh.find(' ')), host.label, path));
  }
  for (const int number : numbers_of(host.placement, ranks())) {
    note_exit(number, {0, 0, true});
  }
}

void Launcher::note_exit(int number, RankEnd end) {
  supervisor_.on_exit(number, end, monotonic_now());
  if (supervisor_.stop() != Supervisor::Stop::kNone || supervisor_.ranks_are_over() ||
      !supervisor_.is_spared(number, end)) {
    return;
  }
  say(fmt::format("aggregator {} on {} is gone; the ranks go on without aggregators",
                  number - ranks(), hosts_by_number_[static_cast<std::size_t>(number)]));
}

void Launcher::fail(int code, const std::string& text) {
  if (fatal_.has_value()) return;
  fatal_ = code;
  fatal_text_ = text;
}

void Launcher::signal_ranks(int signo) {
  AgentCommand command;
  command.signal = signo;
  for (Host& host : hosts_) host.link->send(command);
}

void Launcher::on_signal() {
  signalfd_siginfo info;
  while (read(signals_.fd(), &info, sizeof info) == sizeof info) {
    const Nanos now = monotonic_now();
    if (info.ssi_signo == SIGUSR1 || info.ssi_signo == SIGUSR2) {
      if (started_) signal_ranks(static_cast<int>(info.ssi_signo));
    } else if (!started_) {
      fail(info.ssi_signo == SIGINT ? kExitInterrupted
                                    : kExitSignalBase + static_cast<int>(info.ssi_signo),
           "stopped before the ranks had started");
    } else if (info.ssi_signo == SIGINT) {
      const bool first = supervisor_.stop() == Supervisor::Stop::kNone;
      supervisor_.on_interrupt(now);
      say(first ? fmt::format("interrupted: the ranks get {:.3g} s to end; Ctrl-C again kills them",
                              static_cast<double>(options_.grace) / 1e9)
                : "interrupted again: killing the ranks");
    } else {
      supervisor_.on_terminate(now);
    }
  }
}

void Launcher::act(Nanos now) {
  if (!started_ && now - begin_ > options_.start_limit) {
    for (const Host& host : hosts_) {
      if (!host.ready)
        return fail(kExitEnvironment, fmt::format("no answer from {} within {:.3g} s", host.label,
                                                  static_cast<double>(options_.start_limit) / 1e9));
    }
  }
  if (!started_) return;
  switch (supervisor_.poll(now)) {
    case Supervisor::Ask::kNothing:
      return;
    case Supervisor::Ask::kTerminate:
      return signal_ranks(SIGTERM);
    case Supervisor::Ask::kKill:
      return signal_ranks(SIGKILL);
  }
}

bool Launcher::over() const {
  if (fatal_.has_value() || supervisor_.stuck(monotonic_now())) return true;
  return std::none_of(hosts_.begin(), hosts_.end(),
                      [](const Host& h) { return h.link->is_open(); });
}

int Launcher::run() {
  adopt_strays();  // an agent that is killed cannot clean up itself
  poller_.add(signals_.fd(), EPOLLIN, [this](std::uint32_t) { on_signal(); });
  const Status status = start_agents();
  if (!status.ok()) fail(exit_code_of(status), status.message());
  while (!over()) {
    Nanos wait = kSecond;
    if (supervisor_.deadline())
      wait = std::clamp(*supervisor_.deadline() - monotonic_now(), Nanos{0}, wait);
    poller_.poll(wait);
    if (!output_->flush()) supervisor_.on_output_closed(monotonic_now());
    act(monotonic_now());
  }
  return finish();
}

int Launcher::finish() {
  for (Host& host : hosts_) host.link->finish();  // whatever still runs loses its launcher and dies
  kill_strays();
  output_->flush();
  if (fatal_.has_value()) {
    say(fatal_text_);
    return *fatal_;
  }
  const double wall_s = static_cast<double>(monotonic_now() - begin_) / 1e9;
  const ReportInput report{
      supervisor_, hosts_by_number_,
      [this](int rank) -> const std::deque<std::string>& { return output_->tail(rank); }, wall_s};
  if (options_.json == "-") {
    write_all(STDOUT_FILENO, summary_json(report));
  } else if (!options_.json.empty()) {
    std::ofstream file(options_.json);
    if (!(file << summary_json(report) << std::flush))
      say(fmt::format("cannot write {}", options_.json));
  }
  write_all(STDERR_FILENO, failure_text(report));
  return supervisor_.exit_code();
}

// By number of the process.
std::vector<std::string> labels_of(const LaunchOptions& options) {
  std::vector<std::string> labels;
  for (const HostPlacement& host : options.hosts) {
    labels.insert(labels.end(), static_cast<std::size_t>(host.ranks), label_of(host));
  }
  const std::size_t ranks = labels.size();
  labels.resize(ranks + static_cast<std::size_t>(options.servers));
  for (const HostPlacement& host : options.hosts) {
    for (const int server : host.servers) {
      labels[ranks + static_cast<std::size_t>(server)] = label_of(host);
    }
  }
  return labels;
}

}  // namespace

int launch(const LaunchOptions& options) {
  OutputOptions output_options;
  const std::vector<std::string> labels = labels_of(options);
  output_options.hosts = labels;
  output_options.servers = options.servers;
  output_options.color = options.color;
  output_options.prefix = options.prefix;
  output_options.screen = options.screen;
  output_options.log_dir = options.log_dir;
  Result<std::unique_ptr<Output>> output = Output::open(std::move(output_options));
  const Result<cluster::JobKey> key = cluster::JobKey::generate();
  for (const Status& status : {output.status(), key.status()}) {
    if (status.ok()) continue;
    say(status.message());
    return exit_code_of(status);
  }
  return Launcher(options, std::move(output).value(), labels, key.value().line()).run();
}

}  // namespace syncline::tools
