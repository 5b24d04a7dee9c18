// Training steps without a model: layers that take their time, whose gradients and weights travel
// through a key-value store, with priorities and without.
#pragma once

#include <cstdint>
#include <string>

#include "syncline/session.h"
#include "tools/bench/kv.h"

namespace syncline::tools {

struct KvStepTimes {  // medians, of the slowest worker
  double span_us = 0;
  // Since the step began, worker 0's: when the weights of these layers were there again.
  double first_us = 0, last_us = 0;
};

struct KvStepsResult {
  int workers = 0, servers = 0;
  KvStepTimes by_priority, in_order;
  std::uint64_t wrong = 0;  // elements
};

// Collective; complete on worker 0. In turns, one step with priorities and one without:
// options.keys layers that each compute for options.layer_us, forward and backward.
KvStepsResult measure_kv_steps(Session& session, const KvBenchOptions& options);
std::string kv_steps_text(const KvBenchOptions& options, const KvStepsResult& result);
std::string kv_steps_json(const KvBenchOptions& options, const KvStepsResult& result);

}  // namespace syncline::tools
