#include "tools/bench/command.h"

#include <memory>

#include "CLI/CLI.hpp"
#include "base/env.h"
#include "cluster/rank_env.h"
#include "fmt/format.h"
#include "tools/bench/job.h"
#include "tools/bench/kv.h"
#include "tools/cli/exit_code.h"
#include "tools/cli/job_settings.h"
#include "tools/cli/units.h"
#include "tools/run/cpus.h"

namespace syncline::tools {
namespace {

constexpr const char* kBenchFooter = R"(Examples:
  syncline bench all_reduce -np 2
  syncline bench all_reduce -np 4 --transport tcp --minbytes 1K --maxbytes 32M --json out.json
  syncline bench broadcast -np 2 -b 4K -e 4M -f 4 -n 100 -d half --format nccl-tests
  mpirun -np 2 syncline bench all_gather
  syncline bench kv -np 2 --servers 2

Operations: all_reduce, reduce_scatter, all_gather, broadcast, reduce, barrier. Without -np the
benchmark joins the job of its environment. The short flags are those of nccl-tests. Every size is
run in place and out of place where the operation has both, and its results are checked against
exact values: wrong elements give exit code 1.)";

struct BenchArguments {
  std::string operation;
  std::string ranks, host_list, hostfile, rsh;
  std::string bytes_min = "1K", bytes_max = "32M", step_bytes = "0";
  std::string type = "f32", op = "sum";
  std::string check = "1";  // empty: the bare flag
  BenchOptions options;
};

Status fill(BenchArguments& a) {
  BenchOptions& o = a.options;
  const Result<Collective> kind = parse_collective(a.operation);
  const Result<DType> type = parse_dtype(a.type);
  const Result<ReduceOp> op = parse_reduce_op(a.op);
  const Result<std::uint64_t> low = parse_bytes(a.bytes_min);
  const Result<std::uint64_t> high = parse_bytes(a.bytes_max);
  const Result<std::uint64_t> step = parse_bytes(a.step_bytes);
  for (const Status& status :
       {kind.status(), type.status(), op.status(), low.status(), high.status(), step.status()}) {
    if (!status.ok()) return status;
  }
  o.kind = kind.value();
  o.type = type.value();
  o.op = op.value();
  o.bytes_min = low.value();
  o.bytes_max = high.value();
  o.step_bytes = step.value();
  o.check = a.check != "0";
  const std::string transports = o.transport == "inproc" ? "" : o.transport;
  for (const Status& status : {check_schedule(o.schedule), check_transports(transports)}) {
    if (!status.ok()) return status;
  }
  if (o.schedule == "auto") o.schedule.clear();
  const auto bad = [](std::string text) { return Status(Code::kInvalidArgument, std::move(text)); };
  if (o.bytes_min > o.bytes_max) {
    return bad(fmt::format("--minbytes {} is more than --maxbytes {}", a.bytes_min, a.bytes_max));
  }
  if (o.iterations < 1 || o.warmup < 0)
    return bad("--iters must be at least 1 and --warmup at least 0");
  if (o.step_factor <= 1 && o.step_bytes == 0) return bad("--stepfactor must be more than 1");
  return {};
}

int bench(BenchArguments& a, const Invocation& invocation) {
  const auto refuse = [](const Status& status) {
    return complain(exit_code_of(status), status.message());
  };
  const Status status = fill(a);
  if (!status.ok()) return refuse(status);
  a.options.quiet = invocation.quiet;
  // The command line wins over the environment, and the environment over a session's code.
  if (a.options.reproducible) set_env("SYNCLINE_REPRODUCIBLE", "1");
  const bool threads = a.options.transport == "inproc";
  if (a.ranks.empty() && a.host_list.empty() && a.hostfile.empty()) {
    return threads ? bench_in_threads(a.options, usable_cores()) : bench_in_job(a.options);
  }
  int ranks = 0;
  if (!a.ranks.empty()) {
    const Result<int> parsed =
        a.ranks == "auto" ? usable_cores() : parse_int(a.ranks, 1, cluster::kWorldSizeMax, "-np:");
    if (!parsed.ok()) return refuse(parsed.status());
    ranks = parsed.value();
  }
  if (ranks > 0 && (a.options.root < 0 || a.options.root >= ranks)) {
    return complain(kExitUsage,
                    fmt::format("--root {}: there are ranks 0 to {}", a.options.root, ranks - 1));
  }
  if (threads) return bench_in_threads(a.options, ranks);
  return bench_in_processes(a.options, ranks, a.host_list, a.hostfile, a.rsh);
}

void add_options(CLI::App& app, BenchArguments& a) {
  BenchOptions& o = a.options;
  app.add_option("operation", a.operation, "What to measure");
  app.add_option("--np", a.ranks, "Ranks to start (also written -np); auto = one per usable core");
  app.add_option("-H,--host", a.host_list, "Hosts and their slots: alpha:2,beta:2");
  app.add_option("--hostfile", a.hostfile, "File with the hosts");
  app.add_option("--rsh", a.rsh, "Command that starts the agent on another host (default: ssh)");
  app.add_option("--transport", o.transport,
                 "shm, tcp or inproc (ranks are threads); default: the best");
  app.add_option("--schedule,--sync", o.schedule, "Force one schedule, e.g. ring");
  app.add_flag("--reproducible", o.reproducible,
               "Canonical sums only; prints their time beside the free choice's, as a ratio")
      ->envname("SYNCLINE_REPRODUCIBLE");
  app.add_option("-b,--minbytes", a.bytes_min, "Smallest size, e.g. 1K")->capture_default_str();
  app.add_option("-e,--maxbytes", a.bytes_max, "Largest size, e.g. 32M")->capture_default_str();
  app.add_option("-f,--stepfactor", o.step_factor, "Factor between sizes")->capture_default_str();
  app.add_option("-i,--stepbytes", a.step_bytes, "Fixed difference between sizes instead");
  app.add_option("-n,--iters", o.iterations, "Timed samples a size")->capture_default_str();
  app.add_option("-w,--warmup,--warmup-iters", o.warmup, "Operations before timing")
      ->capture_default_str();
  app.add_option("-c,--check", a.check, "Check the results (default); 0 leaves it out")
      ->expected(0, 1);
  app.add_option("-d,--datatype", a.type, "f32, f64, f16, bf16, i8, u8, i16, i32, i64, bool")
      ->capture_default_str();
  app.add_option("-o,--redop,--op", a.op,
                 "sum, average, min, max, product, bit_and, bit_or, bit_xor")
      ->capture_default_str();
  app.add_option("-r,--root", o.root, "Root of broadcast and reduce")->capture_default_str();
  app.add_option("--format", o.format, "table, nccl-tests, osu or json")
      ->check(CLI::IsMember({"table", "nccl-tests", "osu", "json"}))
      ->capture_default_str();
  app.add_option("--json", o.json, "Write JSON to this file, or - for stdout instead of the table");
}

}  // namespace

void add_bench_command(CLI::App& app, Invocation& invocation) {
  CLI::App* const command =
      app.add_subcommand("bench", "Measure a collective and check its results");
  const auto arguments = std::make_shared<BenchArguments>();
  command->footer(kBenchFooter);
  add_options(*command, *arguments);
  add_output_options(*command, invocation);
  add_kv_bench(*command, invocation);
  command->callback([arguments, command, &invocation] {
    if (!command->get_subcommands().empty()) return;
    if (arguments->operation.empty()) throw CLI::RequiredError("operation");
    invocation.action = [arguments, &invocation] { return bench(*arguments, invocation); };
  });
}

}  // namespace syncline::tools
