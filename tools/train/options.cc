#include "tools/train/options.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "CLI/CLI.hpp"
#include "syncline/kvstore.h"
#include "tools/cli/exit_code.h"
#include "tools/cli/invocation.h"
#include "tools/cli/job_settings.h"

namespace syncline::tools {
namespace {

constexpr const char* kFooter = R"(Examples:
  syncline train --data fashion-mnist                           one worker
  syncline run -np 2 syncline train --data fashion-mnist        two workers
  mpirun -np 2 syncline train --model resnet18 --batch 32 --json r.json

Most options may also come from the environment (--bucket-cap-mb = SYNCLINE_BUCKET_CAP_MB); the
command line wins. Exit codes: 0 ok, 1 failure, 2 wrong option or data, 3 unfit machine, 85 stopped
on request.)";

void add_training(CLI::App& app, TrainOptions& o) {
  const auto positive = CLI::Range(1, 1 << 20);
  app.add_option("--model", o.model, "Network to train")
      ->check(CLI::IsMember({"small-cnn", "resnet18", "resnet50"}))
      ->capture_default_str();
  app.add_option("--batch", o.batch, "Samples of one worker in one forward")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--epochs", o.epochs, "Passes over the training images")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--lr", o.lr, "Highest learning rate [0.1 per 256 samples a step; adamw 0.001]")
      ->check(CLI::Range(1e-12, 1e6));
  app.add_option("--optimizer", o.optimizer, "sgd (Nesterov momentum) or adamw")
      ->check(CLI::IsMember({"sgd", "adamw"}))
      ->capture_default_str();
  app.add_option("--momentum", o.momentum, "Momentum of sgd")
      ->check(CLI::Range(0.0, 0.9999))
      ->capture_default_str();
  app.add_option("--weight-decay", o.weight_decay, "Weight decay")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  app.add_option("--lr-schedule", o.lr_schedule, "After the warm-up: cosine, linear or constant")
      ->check(CLI::IsMember({"cosine", "linear", "constant"}))
      ->capture_default_str();
  app.add_option("--warmup", o.warmup, "Part of all steps in which the rate rises")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--label-smoothing", o.label_smoothing, "Spread this much over wrong classes")
      ->check(CLI::Range(0.0, 0.99))
      ->capture_default_str();
  app.add_option("--augment", o.augment, "Random changes of training images: none or shift-flip")
      ->check(CLI::IsMember({"none", "shift-flip"}))
      ->capture_default_str();
  app.add_option("--accum", o.accum, "Forwards for each optimiser step")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--seed", o.seed, "Seed of weights, order and augmentation")
      ->capture_default_str();
  app.add_option("--max-steps", o.max_steps, "Stop after this many optimiser steps")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
}

std::string check_consistency(const std::string& text) {
  try {
    Consistency::parse(text);
    return {};
  } catch (const Error& error) {
    return error.status().message();
  }
}

std::string check_slowness(const std::string& text) {
  return parse_slowness(text).has_value()
             ? std::string()
             : "'" + text + "' is not RANK:FACTOR or RANK:FACTOR:SHARE, e.g. 2:5 or all:10:0.1";
}

void add_exchange(CLI::App& app, TrainOptions& o) {
  app.add_option("--bucket-cap-mb", o.bucket_cap_mb, "Gradient bucket size, MiB [25]")
      ->check(CLI::Range(1e-3, 65536.0));
  app.add_flag("--reproducible", o.reproducible,
               "Gradient sums have the same bits by every schedule, transport and bucket layout");
  app.add_option("--sync", o.sync,
                 "Schedule of the gradient exchange, e.g. ring or aggregator, or ps [auto]")
      ->check([](const std::string& name) {
        return name == "ps" ? std::string() : check_schedule(name).message();
      });
  app.add_option("--consistency", o.consistency,
                 "Of --sync ps: bulk_synchronous, bounded_staleness:N or asynchronous")
      ->check([](const std::string& text) { return check_consistency(text); })
      ->capture_default_str();
  app.add_flag("--scale-by-age", o.scale_by_age,
               "Of --sync ps: old gradients move the weights less");
  app.add_flag("--pool", o.pool,
               "Of --consistency asynchronous: a worker that is done takes the next samples");
  app.add_option("--slow", o.slow,
                 "Make workers slow by sleeping, RANK:FACTOR or RANK:FACTOR:SHARE of its steps, "
                 "e.g. 2:5 or all:10:0.1")
      ->check([](const std::string& text) { return check_slowness(text); })
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void add_running(CLI::App& app, TrainOptions& o) {
  app.add_option("--data", o.data, "fashion-mnist, or a folder with IDX files by MNIST's names")
      ->capture_default_str();
  app.add_option("--eval", o.evaluate, "Test accuracy after every epoch, at the end, or none")
      ->check(CLI::IsMember({"epoch", "end", "none"}))
      ->expected(0, 1)
      ->capture_default_str();
  app.add_option("--threads", o.threads,
                 "Computing threads [OMP_NUM_THREADS, else cores / workers]")
      ->check(CLI::Range(1, 4096));
  app.add_option("--json", o.json, "Write the report to this file, - for standard output");
  app.add_option("--progress", o.progress, "auto, bar, lines, none, or the path of a terminal")
      ->capture_default_str();
  app.add_flag("-q,--quiet", o.quiet, "Print results and errors only");
}

// --bucket-cap-mb -> SYNCLINE_BUCKET_CAP_MB. Short-lived and generic names stay flags only.
void add_environment(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    std::string name = option->get_single_name();
    if (name == "help" || name == "quiet" || name == "json" || name == "sync") continue;
    std::replace(name.begin(), name.end(), '-', '_');
    std::transform(name.begin(), name.end(), name.begin(), [](char c) {
      return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    });
    option->envname("SYNCLINE_" + name);
  }
}

}  // namespace

int parse_train_options(const std::vector<std::string>& words, TrainOptions& options) {
  CLI::App app("Train an image classifier, alone or as one of several workers.", "syncline train");
  app.footer(kFooter);
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  add_running(app, options);
  add_training(app, options);
  add_exchange(app, options);
  add_environment(app);
  std::vector<std::string> reversed = normalize(app, words, false);
  std::reverse(reversed.begin(), reversed.end());
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::Success& done) {
    return app.exit(done);
  } catch (const CLI::ParseError& error) {
    return complain(kExitUsage,
                    std::string("train: ") + error.what() + "; see syncline train --help");
  }
  if (options.sync == "auto") options.sync.clear();
  if (options.pool && (options.warmup > 0 || options.lr_schedule != "constant")) {
    return complain(kExitUsage,
                    "train: --pool needs --warmup 0 --lr-schedule constant: nobody knows how many "
                    "steps each worker will take");
  }
  if (options.pool && (options.sync != "ps" || options.consistency != "asynchronous")) {
    return complain(kExitUsage,
                    "train: --pool needs --sync ps --consistency asynchronous: otherwise workers "
                    "take their steps together");
  }
  return -1;
}

std::optional<Slowness> parse_slowness(const std::string& text) {
  Slowness result;
  char rank[16] = {};
  int used = 0;
  const int fields = std::sscanf(text.c_str(), "%15[^:]:%lf%n:%lf%n", rank, &result.factor, &used,
                                 &result.share, &used);
  if (fields < 2 || static_cast<std::size_t>(used) != text.size()) return std::nullopt;
  if (std::string(rank) != "all") {
    const char* const end = rank + std::strlen(rank);
    const auto parsed = std::from_chars(rank, end, result.rank);
    if (parsed.ec != std::errc() || parsed.ptr != end || result.rank < 0) return std::nullopt;
  }
  const bool fits =
      result.factor >= 1 && result.factor <= 1e6 && result.share > 0 && result.share <= 1;
  return fits ? std::optional(result) : std::nullopt;
}

double default_lr(const TrainOptions& options, int world_size) {
  if (options.lr > 0) return options.lr;
  if (options.optimizer == "adamw") return 0.001;
  return 0.1 * options.batch * options.accum * world_size / 256.0;
}

}  // namespace syncline::tools
