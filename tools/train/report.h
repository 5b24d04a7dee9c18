// TrainReport: what a training run says at its end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "syncline/kvstore.h"
#include "tools/train/options.h"

namespace syncline::tools {

// Where a step's time went; milliseconds, means over steps and ranks.
struct PhaseTimes {
  double data = 0;      // waiting for the batch
  double forward = 0;   // model and loss
  double backward = 0;  // gradients, without what is exposed
  double exposed = 0;   // waiting for the exchange: what backward did not hide
  double optimiser = 0;

  double compute() const { return forward + backward + optimiser; }
  double step() const { return data + compute() + exposed; }
};

// One gradient bucket; times in microseconds.
struct BucketReport {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint64_t tensors = 0;
  std::string schedule;
  std::string transport;
  double predicted_us = 0;
  double alone_us = 0;  // measured after training: median
  double in_step_us =
      0;  // launch to completion inside backward, waiting for the slowest rank included
  std::string reason;  // why the planner chose it
};

struct EvalResult {
  std::uint64_t samples = 0;  // each test image counted once
  double accuracy = 0;        // 0 .. 1
  double loss = 0;
};

struct TrainReport {
  TrainOptions options;
  double lr = 0;
  int world_size = 1;
  std::string rank_source;
  int threads = 1;
  std::uint64_t parameters = 0;
  std::uint32_t parameters_crc32c = 0;  // of their bytes after training, in their order
  std::int64_t steps = 0;
  std::uint64_t samples = 0;            // trained on, all ranks
  double train_seconds = 0;             // of the slowest rank, evaluation left out
  double final_loss = 0;                // mean over ranks of the last steps' smoothed training loss
  std::vector<EvalResult> evaluations;  // one for each epoch, or one at the end
  PhaseTimes phases;
  double compute_ms_min = 0;  // PhaseTimes::compute() of the fastest rank
  double compute_ms_max = 0;  // and of the slowest
  std::vector<BucketReport> buckets;
  // Of --sync ps.
  std::string consistency;  // empty: no store
  int store_servers = 0;
  bool store_sums_on_hosts = false;
  std::vector<KVServerStats> store;  // by server
  bool stopped = false;              // on request, before the end

  double images_per_second() const;
  double exchange_ms() const;  // t2: the buckets alone, one after the other
};

// Which of t1 = compute and t2 = exchange (or the data) bounds the step, and what follows.
std::string verdict(const TrainReport& report);
// "data", "compute" or "exchange".
std::string bound_by(const TrainReport& report);

// Several lines for people.
std::string report_text(const TrainReport& report);
// Schema "syncline.train/1", described in docs/train.md.
std::string report_json(const TrainReport& report);

}  // namespace syncline::tools
