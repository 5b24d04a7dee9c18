#include "tools/train/report.h"

#include <algorithm>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "syncline/version.h"

namespace syncline::tools {
namespace {

std::string bytes_text(std::uint64_t bytes) {
  if (bytes >= 1 << 20) return fmt::format("{:.2f} MiB", static_cast<double>(bytes) / (1 << 20));
  if (bytes >= 1 << 10) return fmt::format("{:.1f} KiB", static_cast<double>(bytes) / (1 << 10));
  return fmt::format("{} B", bytes);
}

std::string phase_row(const char* name, double ms, double step) {
  return fmt::format("    {:<22}{:>9.2f} ms  {:>4.0f}%\n", name, ms,
                     step > 0 ? 100 * ms / step : 0);
}

std::string phases_text(const PhaseTimes& p) {
  const double step = p.step();
  return fmt::format("  step time             {:>9.2f} ms  (mean over steps and ranks)\n", step) +
         phase_row("waiting for data", p.data, step) + phase_row("forward", p.forward, step) +
         phase_row("backward", p.backward, step) +
         phase_row("exposed communication", p.exposed, step) +
         phase_row("optimiser", p.optimiser, step);
}

std::string buckets_text(const std::vector<BucketReport>& buckets) {
  std::string text =
      fmt::format("  {:<16}{:>11}  {:<17}{:<10}{:>12}{:>12}{:>12}\n", "bucket", "size", "schedule",
                  "transport", "predicted", "measured", "in the step");
  for (const BucketReport& b : buckets) {
    text += fmt::format("  {:<16}{:>11}  {:<17}{:<10}{:>9.0f} us{:>9.0f} us{:>9.0f} us\n", b.name,
                        bytes_text(b.bytes), b.schedule, b.transport, b.predicted_us, b.alone_us,
                        b.in_step_us);
  }
  return text +
         "  (measured: the same exchange after training, median; in the step: launch to "
         "completion,\n"
         "  waiting for the slowest rank included)\n";
}

nlohmann::json phases_json(const PhaseTimes& p) {
  return {{"data", p.data},       {"forward", p.forward},     {"backward", p.backward},
          {"exposed", p.exposed}, {"optimiser", p.optimiser}, {"step", p.step()}};
}

nlohmann::json options_json(const TrainReport& r) {
  const TrainOptions& o = r.options;
  return {{"data", o.data},
          {"model", o.model},
          {"batch", o.batch},
          {"epochs", o.epochs},
          {"accum", o.accum},
          {"lr", r.lr},
          {"optimizer", o.optimizer},
          {"momentum", o.momentum},
          {"weight_decay", o.weight_decay},
          {"lr_schedule", o.lr_schedule},
          {"warmup", o.warmup},
          {"label_smoothing", o.label_smoothing},
          {"augment", o.augment},
          {"sync", o.sync.empty() ? "auto" : o.sync},
          {"reproducible", o.reproducible},
          {"seed", o.seed}};
}

// Against data parallelism as usual, where every worker keeps all of the optimiser's state.
std::uint64_t optimizer_bytes_saved(const TrainReport& r) {
  std::uint64_t bytes = 0;
  for (const KVServerStats& each : r.store) bytes += each.optimizer_bytes;
  return bytes * static_cast<std::uint64_t>(std::max(r.world_size - 1, 0));
}

// Staleness beside the loss: what running apart gained and cost.
std::string store_text(const TrainReport& r) {
  std::string text =
      fmt::format("  store                 {}, {} servers{}; loss {:.4f}\n", r.consistency,
                  r.store_servers, r.store_sums_on_hosts ? ", summed on hosts" : "", r.final_loss);
  for (std::size_t i = 0; i < r.store.size(); ++i) {
    const KVServerStats& s = r.store[i];
    text += fmt::format(
        "    server {:<3} weights {:>7.2f} MiB, optimiser {:>7.2f} MiB; gradients' age: mean "
        "{:.2f} "
        "updates, most {}\n",
        i, static_cast<double>(s.value_bytes) / (1 << 20),
        static_cast<double>(s.optimizer_bytes) / (1 << 20), s.age_mean, s.age_max);
  }
  if (const std::uint64_t saved = optimizer_bytes_saved(r); saved > 0) {
    text += fmt::format(
        "    the optimiser's state is there once, in shares (ZeRO stage 1): {} workers save {:.2f} "
        "MiB\n",
        r.world_size, static_cast<double>(saved) / (1 << 20));
  }
  return text;
}

nlohmann::json store_json(const TrainReport& r) {
  if (r.consistency.empty()) return nullptr;
  nlohmann::json servers = nlohmann::json::array();
  for (const KVServerStats& s : r.store) {
    servers.push_back({{"value_bytes", s.value_bytes},
                       {"optimizer_bytes", s.optimizer_bytes},
                       {"updates", s.updates},
                       {"age_mean", s.age_mean},
                       {"age_max", s.age_max}});
  }
  return {{"consistency", r.consistency},
          {"sums_on_hosts", r.store_sums_on_hosts},
          {"optimizer_bytes_saved", optimizer_bytes_saved(r)},
          {"servers", servers}};
}

}  // namespace

std::string report_text(const TrainReport& r) {
  const char* workers = r.world_size == 1 ? "worker" : "workers";
  std::string text =
      fmt::format("{} on {}: {} {}, batch {}{}, {} steps{}\n", r.options.model, r.options.data,
                  r.world_size, workers, r.options.batch,
                  r.options.accum > 1 ? fmt::format(" x {} forwards", r.options.accum) : "",
                  r.steps, r.stopped ? " (stopped on request)" : "");
  if (!r.evaluations.empty()) {
    const EvalResult& e = r.evaluations.back();
    text += fmt::format("  test accuracy         {:>9.2f} %   (loss {:.4f}, {} images)\n",
                        100 * e.accuracy, e.loss, e.samples);
  }
  text += fmt::format(
      "  throughput            {:>9.0f} images/s over all workers ({:.1f} s of training)\n",
      r.images_per_second(), r.train_seconds);
  text += phases_text(r.phases);
  if (!r.buckets.empty()) text += buckets_text(r.buckets);
  if (!r.consistency.empty()) text += store_text(r);
  return text + "  " + verdict(r) + "\n";
}

std::string report_json(const TrainReport& r) {
  nlohmann::json evaluations = nlohmann::json::array();
  for (const EvalResult& e : r.evaluations) {
    evaluations.push_back({{"samples", e.samples}, {"accuracy", e.accuracy}, {"loss", e.loss}});
  }
  nlohmann::json buckets = nlohmann::json::array();
  for (const BucketReport& b : r.buckets) {
    buckets.push_back({{"name", b.name},
                       {"bytes", b.bytes},
                       {"tensors", b.tensors},
                       {"schedule", b.schedule},
                       {"transport", b.transport},
                       {"predicted_us", b.predicted_us},
                       {"measured_us", b.alone_us},
                       {"in_step_us", b.in_step_us},
                       {"reason", b.reason}});
  }
  nlohmann::json all = {{"schema", "syncline.train/1"},
                        {"version", SYNCLINE_VERSION_STRING},
                        {"options", options_json(r)},
                        {"world_size", r.world_size},
                        {"rank_source", r.rank_source},
                        {"threads", r.threads},
                        {"parameters", r.parameters},
                        {"parameters_crc32c", fmt::format("{:08x}", r.parameters_crc32c)},
                        {"steps", r.steps},
                        {"samples", r.samples},
                        {"train_seconds", r.train_seconds},
                        {"images_per_second", r.images_per_second()},
                        {"final_loss", r.final_loss},
                        {"evaluations", evaluations},
                        {"phases_ms", phases_json(r.phases)},
                        {"compute_ms_min", r.compute_ms_min},
                        {"compute_ms_max", r.compute_ms_max},
                        {"t1_compute_ms", r.phases.compute()},
                        {"t2_exchange_ms", r.exchange_ms()},
                        {"bound_by", bound_by(r)},
                        {"verdict", verdict(r)},
                        {"buckets", buckets},
                        {"store", store_json(r)},
                        {"stopped", r.stopped}};
  all["test_accuracy"] =
      r.evaluations.empty() ? nlohmann::json() : nlohmann::json(r.evaluations.back().accuracy);
  return all.dump(2) + "\n";
}

}  // namespace syncline::tools
