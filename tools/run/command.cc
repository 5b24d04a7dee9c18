#include "tools/run/command.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "CLI/CLI.hpp"
#include "base/env.h"
#include "cluster/rank_env.h"
#include "fmt/format.h"
#include "tools/cli/exit_code.h"
#include "tools/cli/job_settings.h"
#include "tools/cli/units.h"
#include "tools/run/agent.h"
#include "tools/run/cpus.h"
#include "tools/run/launcher.h"
#include "tools/run/listener.h"
#include "tools/run/servers.h"

namespace syncline::tools {
namespace {

constexpr const char* kRunFooter = R"(Examples:
  syncline run -np 2 ./train --epochs 3              two ranks on this machine
  syncline run -np auto python3 train.py             one rank per core; torchrun's variables too
  syncline run -H alpha:2,beta:2 ./train             four ranks on two hosts, started over ssh
  syncline run --hostfile hosts --log-dir logs ./train
  syncline run -np 4 --servers 2 ./train             with two servers of a key-value store
  syncline run -np 4 --aggregators 1 ./train         all-reduces go through an aggregator

Options end at the program's name. A hostfile has one `host slots=n` (or `host:n`, or `host`) a
line. The program must lie at the same path on every host. Ranks read /dev/null. Other hosts get
the variables SYNCLINE_*, OMP_*, NCCL_*, LD_LIBRARY_PATH and PYTHONPATH, and those named with -x.

Inside mpirun or srun (mpirun -np 4 syncline run ./train) the program is started directly, and
takes rank and size from them.

Servers (syncline serve) have no rank; the ranks see their number in SYNCLINE_SERVERS. They end by
themselves when all ranks have ended, and are killed if they do not within --grace. Cores and
OMP_NUM_THREADS are shared out among the ranks alone.

Ctrl-C asks the ranks to end (SIGTERM) and waits for --grace; a second Ctrl-C kills them.
SIGUSR2 writes the flight records of all ranks, also of stopped ones; so does the end of a rank that
fails. They go to --log-dir, SYNCLINE_FLIGHT_DIR or the folder for temporary files; read them with
syncline doctor --dump.
Exit code: that of the rank that failed first (128 + signal if killed), 0 when all ended with 0;
2 wrong usage, 3 unfit machine, 85 asks to be started again, 124 time limit, 130 interrupted.)";

// The command line as given.
struct RunArguments {
  std::string ranks, ranks_per_host, host_count, host_list, hostfile;
  ServerWishes servers;
  std::string grace = "10s", time_limit, start_limit = "60s";
  std::string transport, schedule, timeout, silence;
  std::vector<std::string> exports;
  LaunchOptions launch;
  bool agent = false;
  bool standalone = false;
  bool reproducible = false;
};

Result<int> parse_count(const std::string& text, const char* option) {
  if (text.empty()) return 0;
  if (text == "auto") return usable_cores();
  return parse_int(text, 1, cluster::kWorldSizeMax, option);
}

Status fill_hosts(const RunArguments& a, LaunchOptions& launch) {
  PlacementRequest request;
  const Result<int> ranks = parse_count(a.ranks, "-np:");
  if (!ranks.ok()) return ranks.status();
  const Result<int> per_host = parse_count(a.ranks_per_host, "--nproc-per-node:");
  if (!per_host.ok()) return per_host.status();
  if (a.host_count.find(':') != std::string::npos) {
    return {
        Code::kInvalidArgument,
        fmt::format("--nnodes {}: a job that grows and shrinks is not built yet; give one number",
                    a.host_count)};
  }
  const Result<int> host_count = parse_count(a.host_count, "--nnodes:");
  if (!host_count.ok()) return host_count.status();
  request.ranks = ranks.value();
  request.ranks_per_host = per_host.value();
  request.host_count = host_count.value();
  if (!a.host_list.empty() && !a.hostfile.empty()) {
    return {Code::kInvalidArgument, "-H and --hostfile both name the hosts; give one of them"};
  }
  if (a.standalone && !(a.host_list.empty() && a.hostfile.empty())) {
    return {Code::kInvalidArgument,
            "--standalone runs on this machine only; drop it or the host list"};
  }
  if (!a.host_list.empty() || !a.hostfile.empty()) {
    Result<std::vector<HostSlots>> hosts =
        a.host_list.empty() ? read_hostfile(a.hostfile) : parse_host_list(a.host_list);
    if (!hosts.ok()) return hosts.status();
    request.hosts = std::move(hosts).value();
  }
  Result<std::vector<HostPlacement>> placed = place(request);
  if (!placed.ok()) return placed.status();
  launch.hosts = std::move(placed).value();
  for (HostPlacement& host : launch.hosts) host.host = host_to_reach(host.host);
  const Result<int> servers = add_servers(launch.hosts, a.servers);
  launch.servers = servers.ok() ? servers.value() : 0;
  if (!a.servers.aggregators.empty()) {
    launch.aggregators = true;
    launch.variables.emplace_back("SYNCLINE_SERVERS_AGGREGATE", "1");
  }
  return servers.status();
}

bool travels(const std::string& name) {
  if (name == "SYNCLINE_KEY_FD" || name == "SYNCLINE_RENDEZVOUS_FD" || name == "SYNCLINE_FLIGHT_FD")
    return false;
  return name.starts_with("SYNCLINE_") || name.starts_with("OMP_") || name.starts_with("NCCL_") ||
         name == "LD_LIBRARY_PATH" || name == "PYTHONPATH";
}

// "1.5s" -> "1500ms": the form that every reader of a setting takes. "" stays.
std::string milliseconds(const std::string& text) {
  const Result<Nanos> time = parse_duration(text);
  return time.ok() ? fmt::format("{}ms", time.value() / kMillisecond) : "";
}

Status fill_variables(const RunArguments& a, LaunchOptions& launch) {
  const bool has_remote = std::any_of(launch.hosts.begin(), launch.hosts.end(),
                                      [](const HostPlacement& host) { return !host.host.empty(); });
  if (has_remote) {
    for_each_env([&](const std::string& name, const std::string& value) {
      // What describes a rank is set anew for each.
      if (travels(name) && !name.starts_with("SYNCLINE_RANK") &&
          !name.starts_with("SYNCLINE_LOCAL_") && !name.starts_with("SYNCLINE_SERVER") &&
          name != "SYNCLINE_WORLD_SIZE" && name != "SYNCLINE_RUN_ID" &&
          name != "SYNCLINE_RENDEZVOUS") {
        launch.variables.emplace_back(name, value);
      }
    });
  }
  const std::string timeout = milliseconds(a.timeout);
  const std::string silence = milliseconds(a.silence);
  const std::string schedule = a.schedule == "auto" ? "" : a.schedule;
  const std::string reproducible = a.reproducible ? "1" : "";
  const std::pair<const char*, const std::string&> settings[] = {
      {"SYNCLINE_REPRODUCIBLE", reproducible},
      {"SYNCLINE_TRANSPORT", a.transport},
      {"SYNCLINE_SCHEDULE", schedule},
      {"SYNCLINE_IFNAME", launch.ifname},
      {"SYNCLINE_PORT_RANGE", launch.port_range},
      {"SYNCLINE_TIMEOUT", timeout},
      {"SYNCLINE_SILENCE_MS", silence}};
  for (const auto& [name, value] : settings) {
    if (!value.empty()) launch.variables.emplace_back(name, value);
  }
  for (const std::string& entry : a.exports) {
    const std::size_t equals = entry.find('=');
    const std::string name = entry.substr(0, equals);
    if (name.empty())
      return {Code::kInvalidArgument,
              "-x: the variable has no name; write -x NAME or -x NAME=value"};
    if (equals != std::string::npos) {
      launch.variables.emplace_back(name, entry.substr(equals + 1));
    } else if (const auto value = env(name)) {
      launch.variables.emplace_back(name, *value);
    } else {
      return {Code::kInvalidArgument,
              fmt::format("-x {}: the variable is not set here; write -x {}=value", name, name)};
    }
  }
  const auto sets_folder = [](const auto& variable) {
    return variable.first == "SYNCLINE_FLIGHT_DIR";
  };
  if (!launch.log_dir.empty() && !env("SYNCLINE_FLIGHT_DIR").has_value() &&
      std::none_of(launch.variables.begin(), launch.variables.end(), sets_folder)) {
    launch.variables.emplace_back("SYNCLINE_FLIGHT_DIR",
                                  std::filesystem::absolute(launch.log_dir).string() + "/flight");
  }
  launch.keep_omp_threads = env("OMP_NUM_THREADS").has_value();
  for (const auto& [name, value] : launch.variables) {
    if (name == "OMP_NUM_THREADS") launch.keep_omp_threads = true;
  }
  return {};
}

Status check_settings(const RunArguments& a, LaunchOptions& launch) {
  const std::pair<const std::string&, Nanos&> times[] = {{a.grace, launch.grace},
                                                         {a.time_limit, launch.time_limit},
                                                         {a.start_limit, launch.start_limit}};
  for (const auto& [text, target] : times) {
    if (text.empty()) continue;
    const Result<Nanos> parsed = parse_duration(text);
    if (!parsed.ok()) return parsed.status();
    target = parsed.value();
  }
  for (const std::string& text : {a.timeout, a.silence}) {
    const Result<Nanos> parsed = parse_duration(text.empty() ? "1" : text);
    if (!parsed.ok()) return parsed.status();
  }
  for (const Status& status : {check_schedule(a.schedule), check_transports(a.transport)}) {
    if (!status.ok()) return status;
  }
  const Result<Binding> binding = parse_binding(launch.bind_to);
  if (!binding.ok()) return binding.status();
  return parse_port_range(launch.port_range).status();
}

// True when mpirun or srun started us as one of several ranks.
Result<bool> is_rank_already(const RunArguments& a) {
  const Result<cluster::RankEnv> found = cluster::discover_rank(env);
  if (!found.ok()) return false;
  const cluster::RankEnv& rank = found.value();
  const bool foreign =
      rank.source == "OMPI_*" || rank.source == "PMI_*" || rank.source == "slurm step";
  if (!foreign || rank.world_size < 2) return false;
  for (const std::string& option : {a.ranks, a.ranks_per_host, a.host_list, a.hostfile,
                                    a.servers.servers, a.servers.aggregators}) {
    if (option.empty()) continue;
    return Status(
        Code::kInvalidArgument,
        fmt::format(
            "this is rank {} of {} already ({} variables), but run was told what to start; drop "
            "-np and the hosts, or the launcher around it",
            rank.rank, rank.world_size, rank.source));
  }
  return true;
}

int exec_program(const std::vector<std::string>& program) {
  std::vector<std::string> words = program;
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  return complain(kExitUsage,
                  fmt::format("cannot start program '{}': {}", program[0], std::strerror(errno)));
}

int run(RunArguments& a, const Invocation& invocation) {
  if (a.agent) return run_agent();
  LaunchOptions& launch_options = a.launch;
  const auto refuse = [](const Status& status) {
    return complain(exit_code_of(status), status.message());
  };
  if (!launch_options.program.empty() && launch_options.program[0].starts_with('-')) {
    return complain(kExitUsage, fmt::format("run: unknown option {}; see syncline run --help",
                                            launch_options.program[0]));
  }
  if (launch_options.program.empty()) {
    return complain(kExitUsage,
                    "run: no program given; write for example: syncline run -np 2 ./train");
  }
  const Result<bool> already = is_rank_already(a);
  if (!already.ok()) return refuse(already.status());
  if (already.value()) return exec_program(launch_options.program);
  for (const auto fill : {check_settings, fill_hosts, fill_variables}) {
    const Status status = fill(a, launch_options);
    if (!status.ok()) return refuse(status);
  }
  launch_options.color = invocation.use_color(STDOUT_FILENO);
  launch_options.quiet = invocation.quiet;
  return launch(launch_options);
}

void add_placement_options(CLI::App& app, RunArguments& a) {
  app.add_option("-n,--np", a.ranks, "Ranks in all (also written -np); auto = one per usable core");
  app.add_option("--nproc-per-node", a.ranks_per_host, "Ranks on each host, or auto");
  app.add_option("--nnodes", a.host_count, "Use the first N hosts of the list");
  app.add_option("-H,--host", a.host_list, "Hosts and their slots: alpha:2,beta:2");
  app.add_option("--hostfile", a.hostfile, "File with the hosts");
  app.add_option("--servers", a.servers.servers,
                 "Start so many servers of a key-value store beside the ranks (default: none)");
  app.add_option("--aggregators", a.servers.aggregators,
                 "Start so many processes that sum all-reduces on the way, so that each rank sends "
                 "and receives its bytes once (default: none)");
  app.add_option(
         "--servers-on", a.servers.where,
         "The hosts of either: a hostfile, or colocated = in turn on the hosts of the ranks")
      ->default_str("colocated");
  app.add_option("--server-program", a.launch.server_program,
                 "What servers run, instead of syncline serve: a program that calls "
                 "syncline::serve(), with updates of its own");
  app.add_flag("--standalone", a.standalone, "This machine only (the default without hosts)");
  app.add_option("--bind-to", a.launch.bind_to, "Pin ranks: core, numa or none")
      ->capture_default_str();
  app.add_option("--rsh", a.launch.rsh,
                 "Command that starts the agent on another host (default: ssh)");
  app.add_option("-x", a.exports,
                 "Set a variable in every rank: NAME or NAME=value; may be repeated")
      ->allow_extra_args(false);
  app.add_flag("--agent", a.agent)->group("");
}

void add_job_options(CLI::App& app, RunArguments& a) {
  app.add_option("--sync", a.schedule,
                 "Schedule of the collectives: auto, ring, two_shot, tree, ...");
  app.add_flag("--reproducible", a.reproducible,
               "Sums have the same bits by every schedule, transport and bucket layout");
  app.add_option("--transport", a.transport, "Allowed transports, e.g. shm,tcp");
  app.add_option("--ifname", a.launch.ifname,
                 "Network interface: eth0 (prefix), =eth0 (exact), ^lo,docker0 (not these)");
  app.add_option("--port-range", a.launch.port_range,
                 "Listen on ports A-B only (default: the kernel chooses)");
  app.add_option("--timeout", a.timeout, "Longest time one operation may take, e.g. 30s");
  app.add_option("--silence", a.silence, "A peer that is silent for so long is lost, e.g. 10s");
  app.add_option("--grace", a.grace, "Time from SIGTERM to SIGKILL when the job stops")
      ->capture_default_str();
  app.add_option("--time-limit", a.time_limit, "Stop the job after this time (exit code 124)");
  app.add_option("--start-timeout", a.start_limit, "Time for all hosts to answer")
      ->capture_default_str();
  app.add_option("--log-dir", a.launch.log_dir, "Keep one file per rank and stream in this folder");
  app.add_flag("--tee,!--no-tee", a.launch.screen,
               "With --log-dir: also show the output here (the default)");
  app.add_option("--json", a.launch.json, "Write a summary of the job to this file; - is stdout");
}

}  // namespace

void add_run_command(CLI::App& app, Invocation& invocation) {
  CLI::App* const command = app.add_subcommand(
      "run", "Start a program as several ranks: syncline run [OPTIONS] PROGRAM [ARGUMENTS...]");
  const auto arguments = std::make_shared<RunArguments>();
  command->footer(kRunFooter);
  command->prefix_command();
  add_placement_options(*command, *arguments);
  add_job_options(*command, *arguments);
  add_output_options(*command, invocation);
  command->callback([command, arguments, &invocation] {
    arguments->launch.program = command->remaining();
    invocation.action = [arguments, &invocation] { return run(*arguments, invocation); };
  });
}

}  // namespace syncline::tools
