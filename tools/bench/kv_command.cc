#include <fstream>
#include <memory>

#include "CLI/CLI.hpp"
#include "base/env.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "syncline/kvstore.h"
#include "tools/bench/kv.h"
#include "tools/bench/kv_steps.h"
#include "tools/cli/exit_code.h"
#include "tools/cli/units.h"
#include "tools/run/agent_link.h"
#include "tools/run/launcher.h"

namespace syncline::tools {
namespace {

constexpr const char* kKvFooter = R"(Examples:
  syncline bench kv -np 2 --servers 2
  syncline bench kv -np 2 --servers 2 --keys 100 --bytes 10000 --rows 10000
  syncline bench kv -np 2 --servers 2 --keys 16 --bytes 500K --layer-us 10000

Each worker pushes all keys and pulls their sums; the time is the slowest worker's. Bulk
synchronous sums are checked: wrong elements give exit code 1. With --layer-us a key is a layer: its
gradient is pushed as backward passes it, and forward waits for its weights.)";

std::string kv_text(const KvBenchOptions& o, const KvBenchResult& r) {
  const double bytes = static_cast<double>(o.bytes) * o.keys;
  std::string text = fmt::format(
      "{} workers, {} servers, {}{}: {} keys of {} bytes\n"
      "  push and pull   p50 {:.0f} us, p99 {:.0f} us; {:.2f} GB/s a worker and direction\n"
      "  memcpy          {:.0f} us for {:.1f} MB by one thread: push and pull take {:.2f} times "
      "it\n",
      r.workers, r.servers, o.consistency, r.sums_on_hosts ? ", summed on hosts" : "", o.keys,
      o.bytes, r.p50_us, r.p99_us, bytes / r.p50_us / 1e3, r.memcpy_us, bytes / 1e6,
      r.p50_us / r.memcpy_us);
  if (o.gbit > 0) {
    text +=
        fmt::format("  predicted       {:.0f} us where links carry {} Gbit/s: {:.2f} times it\n",
                    r.predicted_us, o.gbit, r.p50_us / r.predicted_us);
  }
  if (!o.beside.empty()) {
    text += fmt::format("  all_reduce      {:.0f} us by {}, in turns: {:.2f} times push and pull\n",
                        r.all_reduce_us, o.beside, r.all_reduce_us / r.p50_us);
  }
  if (o.rows > 0) {
    text += fmt::format(
        "  rows of 64 f32  {:.0f} a second pulled and pushed; a hash map of one process: {:.0f}\n",
        r.rows_per_s, r.map_rows_per_s);
  }
  return text + (r.checked ? fmt::format("  wrong elements  {}\n", r.wrong)
                           : std::string("  not checked: the sums depend on time\n"));
}

std::string kv_json(const KvBenchOptions& o, const KvBenchResult& r) {
  const nlohmann::json all = {{"workers", r.workers},
                              {"servers", r.servers},
                              {"sums_on_hosts", r.sums_on_hosts},
                              {"keys", o.keys},
                              {"bytes", o.bytes},
                              {"consistency", o.consistency},
                              {"p50_us", r.p50_us},
                              {"p99_us", r.p99_us},
                              {"memcpy_us", r.memcpy_us},
                              {"predicted_us", r.predicted_us},
                              {"all_reduce_us", r.all_reduce_us},
                              {"rows_per_s", r.rows_per_s},
                              {"map_rows_per_s", r.map_rows_per_s},
                              {"checked", r.checked},
                              {"wrong", r.wrong}};
  return all.dump(2) + "\n";
}

int show(Session& session, const KvBenchOptions& options, const std::string& text,
         const std::string& as_json, std::uint64_t wrong) {
  if (session.rank() != 0) return kExitOk;
  fmt::print("{}", options.json == "-" ? as_json : text);
  std::fflush(stdout);
  if (!options.json.empty() && options.json != "-" &&
      !(std::ofstream(options.json) << as_json << std::flush)) {
    return complain(kExitEnvironment, fmt::format("bench: cannot write {}", options.json));
  }
  if (wrong == 0) return kExitOk;
  return complain(kExitFailure, fmt::format("bench: {} elements are wrong", wrong));
}

int run_kv(const KvBenchOptions& options) {
  SessionOptions session_options;
  session_options.transport = options.transport;
  Session session = init(session_options);
  if (options.layer_us > 0) {
    const KvStepsResult result = measure_kv_steps(session, options);
    return show(session, options, kv_steps_text(options, result), kv_steps_json(options, result),
                result.wrong);
  }
  const KvBenchResult result = measure_kv(session, options);
  return show(session, options, kv_text(options, result), kv_json(options, result), result.wrong);
}

int launch_kv(const KvBenchOptions& o) {
  PlacementRequest request;
  request.ranks = o.ranks;
  auto placed = place(request);
  if (!placed.ok()) return complain(exit_code_of(placed.status()), placed.status().message());
  LaunchOptions options;
  options.hosts = std::move(placed).value();
  options.servers = o.servers;
  for (int server = 0; server < o.servers; ++server) options.hosts[0].servers.push_back(server);
  options.program = {own_path(),
                     "bench",
                     "kv",
                     "--keys",
                     fmt::to_string(o.keys),
                     "--bytes",
                     fmt::to_string(o.bytes),
                     "--iters",
                     fmt::to_string(o.iterations),
                     "--warmup",
                     fmt::to_string(o.warmup),
                     "--rows",
                     fmt::to_string(o.rows),
                     "--layer-us",
                     fmt::to_string(o.layer_us),
                     "--gbit",
                     fmt::to_string(o.gbit),
                     "--consistency",
                     o.consistency};
  if (!o.transport.empty()) {
    options.program.insert(options.program.end(), {"--transport", o.transport});
    options.variables.emplace_back("SYNCLINE_TRANSPORT", o.transport);  // the servers' too
  }
  if (!o.json.empty()) options.program.insert(options.program.end(), {"--json", o.json});
  if (!o.beside.empty()) options.program.insert(options.program.end(), {"--beside", o.beside});
  options.prefix = false;
  options.quiet = true;
  if (!env("SYNCLINE_LOG")) options.variables.emplace_back("SYNCLINE_LOG", "off");
  return launch(options);
}

}  // namespace

void add_kv_bench(CLI::App& bench, Invocation& invocation) {
  CLI::App* const command =
      bench.add_subcommand("kv", "Measure pushes and pulls through a key-value store");
  const auto options = std::make_shared<KvBenchOptions>();
  const auto bytes = std::make_shared<std::string>("4000000");
  command->footer(kKvFooter);
  command->add_option("--np", options->ranks, "Workers to start (also written -np)")
      ->check(CLI::Range(1, 4096));
  command
      ->add_option("--servers", options->servers, "Servers to start; 0: each worker serves a share")
      ->check(CLI::Range(0, 4096));
  command->add_option("--keys", options->keys, "Keys")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--bytes", *bytes, "Bytes of a key, e.g. 4M")->capture_default_str();
  command->add_option("-n,--iters", options->iterations, "Timed rounds")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("-w,--warmup", options->warmup, "Rounds before timing")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  command->add_option("--rows", options->rows, "Also this many rows of a table at a time")
      ->check(CLI::Range(0, 1 << 24));
  command->add_option("--transport", options->transport, "shm or tcp; default: the best");
  command
      ->add_option("--consistency", options->consistency,
                   "bulk_synchronous, bounded_staleness:N or asynchronous")
      ->capture_default_str();
  command
      ->add_option("--gbit", options->gbit,
                   "The rate of the processes' links, to print the time that it allows")
      ->check(CLI::Range(0.0, 1e6));
  command->add_option(
      "--beside", options->beside,
      "Also time the workers' all_reduce of as many bytes by this schedule, e.g. ring");
  command
      ->add_option("--layer-us", options->layer_us,
                   "Instead: training steps with this long a pause for each key, a layer, forward "
                   "and backward; with priorities and without, in turns")
      ->check(CLI::Range(0, 60'000'000));
  command->add_option("--json", options->json, "Write JSON to this file, - for standard output");
  command->callback([options, bytes, &invocation] {
    invocation.action = [options, bytes] {
      const Result<std::uint64_t> parsed = parse_bytes(*bytes);
      if (!parsed.ok()) return complain(kExitUsage, "bench: " + parsed.status().message());
      options->bytes = parsed.value();
      Consistency::parse(options->consistency);
      return options->ranks > 0 ? launch_kv(*options) : run_kv(*options);
    };
  });
}

}  // namespace syncline::tools
