#include "tools/bench/format.h"

#include <sys/utsname.h>

#include <fstream>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "plan/partition.h"
#include "tools/run/cpus.h"

namespace syncline::tools {
namespace {

using nlohmann::json;

std::string wrong_text(std::int64_t wrong) { return wrong < 0 ? "N/A" : fmt::to_string(wrong); }

std::string timing_columns(const std::optional<Timing>& timing) {
  if (!timing)
    return fmt::format("  {:>8} {:>8} {:>8} {:>7} {:>7} {:>6}", "-", "-", "-", "-", "-", "-");
  return fmt::format("  {:>8.2f} {:>8.2f} {:>8.2f} {:>7.2f} {:>7.2f} {:>6}", timing->mean_us,
                     timing->p50_us, timing->p99_us, timing->algbw_gbs, timing->busbw_gbs,
                     wrong_text(timing->wrong));
}

std::string heading(const BenchReport& r) {
  const BenchOptions& o = r.options;
  std::string text = fmt::format("# syncline bench {}: {} ranks ({} on this host)\n",
                                 to_string(o.kind), r.ranks, r.local_ranks);
  text += fmt::format("# machine: {}\n", r.machine);
  text += fmt::format(
      "# {} samples a size after {} warm-up operations; time is the slowest rank's mean over them, "
      "p50 "
      "and p99 are rank 0's\n",
      o.iterations, o.warmup);
  text += "# algbw = bytes / time, busbw = algbw * " +
          std::string(o.kind == Collective::kAllReduce ? "2(n-1)/n"
                      : plan::has_blocks(o.kind)       ? "(n-1)/n"
                                                       : "1") +
          ", 1 GB = 1e9 bytes\n";
  if (o.reproducible && reduces(o.kind)) {
    text += fmt::format(
        "# reproducible: every sum is the canonical tree; free(us) is the planner's choice without "
        "it, ratio = reproducible / free: median and 10 to 90 % of {} pairs of samples that took "
        "turns\n",
        o.iterations);
  }
  return text;
}

std::string free_columns(const FreeChoice& free) {
  return fmt::format("  {:>8.2f} {:>6.2f} {:>5.2f}-{:<5.2f} {:>6} {}", free.p50_us, free.ratio,
                     free.ratio_p10, free.ratio_p90, wrong_text(free.wrong), free.schedule);
}

std::string closing(const BenchReport& r) {
  const std::int64_t wrong = r.wrong();
  return fmt::format("# Out of bounds values : {} {}\n# Avg bus bandwidth    : {:.5g}\n",
                     wrong < 0 ? "N/A" : fmt::to_string(wrong), wrong > 0 ? "FAILED" : "OK",
                     r.mean_busbw());
}

std::string table(const BenchReport& r) {
  const BenchOptions& o = r.options;
  std::string text = heading(r);
  const char* const ways =
      "#                                                    out-of-place                        "
      "                   in-place\n";
  text += ways;
  text +=
      fmt::format("# {:>10} {:>10} {:>5} {:>7} {:>4}", "size(B)", "count", "type", "redop", "root");
  for (int way = 0; way < 2; ++way) {
    text += fmt::format("  {:>8} {:>8} {:>8} {:>7} {:>7} {:>6}", "time(us)", "p50", "p99", "algbw",
                        "busbw", "#wrong");
  }
  const bool with_free = o.reproducible && reduces(o.kind);
  text += fmt::format("  {:>9} {:<16} {:<9}", "predicted", "schedule", "transport");
  if (with_free) {
    text += fmt::format("  {:>8} {:>6} {:>11} {:>6} {}", "free(us)", "ratio", "p10-p90", "#wrong",
                        "free schedule");
  }
  text += "\n";
  const bool has_root = o.kind == Collective::kBroadcast || o.kind == Collective::kReduce;
  for (const Row& row : r.rows) {
    text +=
        fmt::format("  {:>10} {:>10} {:>5} {:>7} {:>4}", row.bytes, row.count, to_string(o.type),
                    reduces(o.kind) ? to_string(o.op) : "none", has_root ? o.root : -1);
    text += timing_columns(row.out_of_place) + timing_columns(row.in_place);
    text += fmt::format("  {:>9.2f} {:<16} {:<9}", row.predicted_us, row.schedule, row.transport);
    if (row.free) text += free_columns(*row.free);
    text += "\n";
  }
  return text + closing(r);
}

std::string osu(const BenchReport& r) {
  std::string text = fmt::format(
      "# OSU style: {}, {} ranks; {}\n# Size          Avg Latency(us)   Min Latency(us)   "
      "Max Latency(us)  Iterations\n",
      to_string(r.options.kind), r.ranks, r.machine);
  for (const Row& row : r.rows) {
    const Timing& t = row.main();
    text += fmt::format("{:<10}{:>22.2f}{:>18.2f}{:>18.2f}{:>12}\n", row.bytes, t.mean_us, t.min_us,
                        t.max_us, r.options.iterations);
  }
  return text;
}

json nccl_timing(const Timing& t) {
  return {{"time", t.mean_us}, {"alg_bw", t.algbw_gbs}, {"bus_bw", t.busbw_gbs},
          {"nwrong", t.wrong}, {"min", t.min_us},       {"max", t.max_us},
          {"p99", t.p99_us}};
}

std::string nccl_tests(const BenchReport& r) {
  json results = json::array();
  for (const Row& row : r.rows) {
    json entry = {{"size", row.bytes},
                  {"count", row.count},
                  {"type", to_string(r.options.type)},
                  {"redop", to_string(r.options.op)},
                  {"root", r.options.root}};
    if (row.out_of_place) entry["out_of_place"] = nccl_timing(*row.out_of_place);
    if (row.in_place) entry["in_place"] = nccl_timing(*row.in_place);
    results.push_back(std::move(entry));
  }
  const json all = {
      {"version", 1},
      {"config",
       {{"ranks", r.ranks}, {"iters", r.options.iterations}, {"warmup_iters", r.options.warmup}}},
      {"results", std::move(results)},
      {"out_of_bounds", r.wrong()},
      {"average_bus_bandwidth", r.mean_busbw()}};
  return all.dump() + "\n";
}

json timing_json(const Timing& t) {
  return {{"mean_us", t.mean_us},     {"min_us", t.min_us},       {"p50_us", t.p50_us},
          {"p99_us", t.p99_us},       {"max_us", t.max_us},       {"cpu_us", t.cpu_us},
          {"algbw_gbs", t.algbw_gbs}, {"busbw_gbs", t.busbw_gbs}, {"wrong", t.wrong}};
}

}  // namespace

std::int64_t BenchReport::wrong() const {
  std::int64_t sum = -1;
  for (const Row& row : rows) {
    for (const auto& timing : {row.out_of_place, row.in_place}) {
      if (timing && timing->wrong >= 0) sum = std::max<std::int64_t>(sum, 0) + timing->wrong;
    }
    if (row.free && row.free->wrong > 0) sum = std::max<std::int64_t>(sum, 0) + row.free->wrong;
  }
  return sum;
}

double BenchReport::mean_busbw() const {
  double sum = 0;
  int count = 0;
  for (const Row& row : rows) {
    for (const auto& timing : {row.out_of_place, row.in_place}) {
      if (!timing) continue;
      sum += timing->busbw_gbs;
      ++count;
    }
  }
  return count == 0 ? 0 : sum / count;
}

std::string report_json(const BenchReport& r) {
  json rows = json::array();
  for (const Row& row : r.rows) {
    json entry = timing_json(row.main());
    entry["bytes"] = row.bytes;
    entry["count"] = row.count;
    entry["predicted_us"] = row.predicted_us;
    entry["schedule"] = row.schedule;
    entry["transport"] = row.transport;
    entry["ranks"] = r.ranks;
    entry["way"] = row.out_of_place ? "out_of_place" : "in_place";
    if (row.out_of_place && row.in_place) entry["in_place"] = timing_json(*row.in_place);
    if (row.free) {
      entry["free"] = {{"schedule", row.free->schedule},   {"p50_us", row.free->p50_us},
                       {"ratio", row.free->ratio},         {"ratio_p10", row.free->ratio_p10},
                       {"ratio_p90", row.free->ratio_p90}, {"wrong", row.free->wrong}};
    }
    rows.push_back(std::move(entry));
  }
  const json all = {{"schema", "syncline.bench/1"},
                    {"operation", to_string(r.options.kind)},
                    {"type", to_string(r.options.type)},
                    {"redop", to_string(r.options.op)},
                    {"root", r.options.root},
                    {"ranks", r.ranks},
                    {"local_ranks", r.local_ranks},
                    {"iterations", r.options.iterations},
                    {"warmup", r.options.warmup},
                    {"machine", r.machine},
                    {"reproducible", r.options.reproducible},
                    {"rows", std::move(rows)}};
  return all.dump() + "\n";
}

std::string format_report(const BenchReport& report) {
  if (report.options.format == "osu") return osu(report);
  if (report.options.format == "nccl-tests") return nccl_tests(report);
  if (report.options.format == "json") return report_json(report);
  return table(report);
}

std::string machine_line() {
  std::string cpu = "unknown CPU";
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) {
      cpu = line.substr(line.find(": ") + 2);
      break;
    }
  }
  utsname system{};
  uname(&system);
  return fmt::format("{}, {} cores, {} {}", cpu, usable_cores(), system.sysname, system.release);
}

}  // namespace syncline::tools
