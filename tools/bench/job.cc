#include "tools/bench/job.h"

#include <unistd.h>

#include <exception>
#include <fstream>
#include <mutex>

#include "base/env.h"
#include "event/thread.h"
#include "fmt/format.h"
#include "syncline/session.h"
#include "tools/bench/format.h"
#include "tools/bench/measure.h"
#include "tools/cli/exit_code.h"
#include "tools/cli/invocation.h"
#include "tools/run/agent_link.h"
#include "tools/run/launcher.h"
#include "tools/run/output.h"

namespace syncline::tools {
namespace {

SessionOptions session_options(const BenchOptions& options) {
  SessionOptions session;
  session.transport = options.transport;
  session.schedule = options.schedule;
  session.reproducible = options.reproducible;
  return session;
}

// Rank 0's exit code.
int print(const BenchReport& report) {
  const BenchOptions& o = report.options;
  if (o.json != "-") write_all(STDOUT_FILENO, format_report(report));
  if (o.json == "-") write_all(STDOUT_FILENO, report_json(report));
  if (!o.json.empty() && o.json != "-") {
    std::ofstream file(o.json);
    if (!(file << report_json(report) << std::flush)) {
      return complain(kExitEnvironment, fmt::format("bench: cannot write {}", o.json));
    }
  }
  if (report.wrong() > 0) {
    return complain(kExitFailure,
                    fmt::format("bench: {} elements of the results are wrong", report.wrong()));
  }
  return kExitOk;
}

// The command line of one rank.
std::vector<std::string> rank_command(const BenchOptions& o) {
  std::vector<std::string> words = {own_path(),
                                    "bench",
                                    to_string(o.kind),
                                    "--minbytes",
                                    fmt::to_string(o.bytes_min),
                                    "--maxbytes",
                                    fmt::to_string(o.bytes_max),
                                    "--stepfactor",
                                    fmt::to_string(o.step_factor),
                                    "--stepbytes",
                                    fmt::to_string(o.step_bytes),
                                    "--iters",
                                    fmt::to_string(o.iterations),
                                    "--warmup",
                                    fmt::to_string(o.warmup),
                                    "--check",
                                    o.check ? "1" : "0",
                                    "--datatype",
                                    to_string(o.type),
                                    "--redop",
                                    to_string(o.op),
                                    "--root",
                                    fmt::to_string(o.root),
                                    "--format",
                                    o.format};
  const std::pair<const char*, const std::string&> texts[] = {
      {"--schedule", o.schedule}, {"--transport", o.transport}, {"--json", o.json}};
  if (o.reproducible) words.emplace_back("--reproducible");
  for (const auto& [name, value] : texts) {
    if (!value.empty()) words.insert(words.end(), {name, value});
  }
  return words;
}

}  // namespace

int bench_in_job(const BenchOptions& options) {
  Session session = init(session_options(options));
  const BenchReport report = measure_all(session.world(), options, session.local_world_size());
  return session.rank() == 0 ? print(report) : kExitOk;
}

int bench_in_threads(const BenchOptions& options, int ranks) {
  SessionOptions session = session_options(options);
  session.transport.clear();
  std::vector<Session> sessions = init_threads(ranks, session);
  BenchReport report;
  std::exception_ptr failure;
  std::mutex mutex;  // guards failure
  std::vector<event::NamedThread> threads;
  for (Session& mine : sessions) {
    threads.emplace_back("bench rank " + fmt::to_string(mine.rank()), [&] {
      try {
        BenchReport own = measure_all(mine.world(), options, ranks);
        if (mine.rank() == 0) report = std::move(own);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (failure == nullptr) failure = std::current_exception();
      }
    });
  }
  threads.clear();  // joins
  if (failure != nullptr) std::rethrow_exception(failure);
  return print(report);
}

int bench_in_processes(const BenchOptions& options, int ranks, const std::string& host_list,
                       const std::string& hostfile, const std::string& rsh) {
  const auto refuse = [](const Status& status) {
    return complain(exit_code_of(status), status.message());
  };
  LaunchOptions launch_options;
  PlacementRequest request;
  request.ranks = ranks;
  if (!host_list.empty() || !hostfile.empty()) {
    auto hosts = host_list.empty() ? read_hostfile(hostfile) : parse_host_list(host_list);
    if (!hosts.ok()) return refuse(hosts.status());
    request.hosts = std::move(hosts).value();
  }
  auto placed = place(request);
  if (!placed.ok()) return refuse(placed.status());
  launch_options.hosts = std::move(placed).value();
  launch_options.program = rank_command(options);
  launch_options.prefix = false;
  launch_options.quiet = true;
  launch_options.keep_omp_threads = env("OMP_NUM_THREADS").has_value();
  if (!env("SYNCLINE_LOG")) launch_options.variables = {{"SYNCLINE_LOG", "off"}};
  if (!rsh.empty()) launch_options.rsh = rsh;
  return launch(launch_options);
}

}  // namespace syncline::tools
