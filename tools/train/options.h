// Options of `syncline train`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace syncline::tools {

struct TrainOptions {
  std::string data = "fashion-mnist";  // or a folder with IDX files by MNIST's names
  std::string model = "small-cnn";
  int batch = 64;  // samples of one rank in one forward
  int epochs = 3;
  double lr = 0;  // highest learning rate; 0 = default_lr()
  std::string optimizer = "sgd";
  double momentum = 0.9;
  double weight_decay = 5e-4;
  double warmup = 0.2;  // part of all steps in which the rate rises
  std::string lr_schedule = "cosine";
  double label_smoothing = 0;
  std::string augment = "none";  // or "shift-flip"
  int accum = 1;                 // forwards for each optimiser step
  double bucket_cap_mb = 0;      // 0 = the environment's or the library's
  std::string sync;  // schedule of the gradient exchange, or "ps"; "" = the planner's choice
  std::string consistency = "bulk_synchronous";  // of ps
  bool scale_by_age = false;                     // of ps
  bool pool = false;                             // of asynchronous: samples go to whoever is free
  std::vector<std::string> slow;  // "2:5", "all:10:0.1": by sleeping, to see what it costs
  bool reproducible = false;      // the same gradient sums by every schedule
  std::uint64_t seed = 1;
  std::string evaluate = "epoch";  // "epoch", "end" or "none"
  int threads = 0;                 // 0 = OMP_NUM_THREADS, else cores / ranks of this host
  std::int64_t max_steps = 0;      // 0 = no limit
  std::string json;                // "" = no file; "-" = standard output
  std::string progress = "auto";   // "bar", "lines", "none" or the path of a terminal
  bool quiet = false;
};

// A worker that takes `factor` times as long, in a `share` of its steps.
struct Slowness {
  int rank = -1;  // all
  double factor = 1;
  double share = 1;
};
// "RANK:FACTOR" or "RANK:FACTOR:SHARE", RANK a number or "all"; nullopt: neither.
std::optional<Slowness> parse_slowness(const std::string& text);

// Fills `options` and returns -1; else prints what is to be said and returns the exit code.
int parse_train_options(const std::vector<std::string>& words, TrainOptions& options);

// 0.1 for 256 samples a step and in proportion (Goyal et al. 2017, "Accurate, Large Minibatch
// SGD"); AdamW: 0.001.
double default_lr(const TrainOptions& options, int world_size);

}  // namespace syncline::tools
