// `syncline bench kv`: pushes and pulls through a key-value store, beside a memcpy of the same
// bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "syncline/session.h"
#include "tools/cli/invocation.h"

namespace CLI {
class App;
}

namespace syncline::tools {

struct KvBenchOptions {
  int ranks = 0;  // to start; 0: joins the job of its environment
  int servers = 0;
  int keys = 25;
  std::uint64_t bytes = 4000000;  // of one key, f32
  int iterations = 20;
  int warmup = 3;
  std::uint64_t rows = 0;     // of a table, pushed and pulled at a time; 0: no table
  std::int64_t layer_us = 0;  // > 0: steps of layers that compute so long each way (kv_steps.h)
  std::string transport, consistency = "bulk_synchronous", json;
  double gbit = 0;     // of a link, to predict by; 0: no prediction
  std::string beside;  // a schedule of the workers' all_reduce; empty: none
};

struct KvBenchResult {
  int workers = 0, servers = 0;
  bool sums_on_hosts = false;
  double p50_us = 0, p99_us = 0;  // all keys pushed and pulled, the slowest worker
  double memcpy_us = 0;           // one thread, as many bytes: median
  double predicted_us = 0;        // by ps/store_cost.h, where links of the given rate are the limit
  double all_reduce_us = 0;       // of as many bytes by the schedule beside, in turns: median
  double rows_per_s = 0;          // pulled and pushed, all workers
  double map_rows_per_s = 0;      // the same on a hash map of one process
  bool checked = false;
  std::uint64_t wrong = 0;  // elements
};

// Collective; complete on worker 0.
KvBenchResult measure_kv(Session& session, const KvBenchOptions& options);

// Adds `kv` to the bench command.
void add_kv_bench(CLI::App& bench, Invocation& invocation);

}  // namespace syncline::tools
