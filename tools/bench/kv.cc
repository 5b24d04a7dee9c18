#include "tools/bench/kv.h"

#include <time.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "base/clock.h"
#include "ps/placement.h"
#include "ps/store_cost.h"
#include "syncline/kvstore.h"
#include "tools/bench/across_ranks.h"
#include "tools/bench/bandwidth.h"

namespace syncline::tools {
namespace {

constexpr std::size_t kDim = 64;

double since_us(Nanos begun) { return static_cast<double>(monotonic_now() - begun) / kMicrosecond; }

// All keys of one worker.
struct Tensors {
  Tensors(const KvBenchOptions& options, int rank)
      : in(static_cast<std::size_t>(options.keys),
           std::vector<float>(std::max<std::size_t>(options.bytes / sizeof(float), 1))),
        out(in) {
    for (std::size_t k = 0; k < in.size(); ++k) {
      std::fill(in[k].begin(), in[k].end(),
                static_cast<float>(k + 1) * static_cast<float>(rank + 1));
    }
  }
  std::vector<std::vector<float>> in, out;
};

// Of this thread's processor time: the other processes look for work meanwhile, on the same cores.
double copy_us(Tensors& tensors) {
  const auto used_us = [] {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
  };
  const double begun = used_us();
  for (std::size_t k = 0; k < tensors.in.size(); ++k) {
    std::memcpy(tensors.out[k].data(), tensors.in[k].data(), tensors.in[k].size() * sizeof(float));
  }
  return used_us() - begun;
}

void push_and_pull(KVStore& kv, Tensors& tensors) {
  std::vector<Work> works;
  for (std::size_t k = 0; k < tensors.out.size(); ++k) {
    works.push_back(
        kv.push_pull(std::to_string(k), {tensors.out[k].data(), tensors.out[k].size()}));
  }
  for (Work& work : works) work.wait();
}

// What the workers would do without a store, on all keys as one tensor; 0 if not asked for.
double all_reduce_us(Communicator& world, std::vector<float>& sum, const std::string& schedule) {
  if (schedule.empty()) return 0;
  CallOptions by;
  by.schedule = schedule;
  world.barrier().wait();
  const Nanos begun = monotonic_now();
  world.all_reduce({sum.data(), sum.size()}, ReduceOp::kSum, by).wait();
  return max_over_ranks(world, since_us(begun));
}

// Bulk synchronous: the sum over workers of this clock.
std::uint64_t wrong_elements(const Tensors& tensors, int workers) {
  std::uint64_t wrong = 0;
  for (std::size_t k = 0; k < tensors.out.size(); ++k) {
    const float sum = static_cast<float>(k + 1) * static_cast<float>(workers * (workers + 1) / 2);
    wrong += static_cast<std::uint64_t>(std::count_if(tensors.out[k].begin(), tensors.out[k].end(),
                                                      [&](float x) { return x != sum; }));
  }
  return wrong;
}

// Ids in an order that jumps, the same ones each time.
std::vector<std::int64_t> row_ids(std::uint64_t rows) {
  std::vector<std::int64_t> ids(rows);
  for (std::uint64_t i = 0; i < rows; ++i) {
    ids[i] = static_cast<std::int64_t>((i * 7919) % (4 * rows + 1));
  }
  return ids;
}

double rows_per_s(Session& session, KVStore& kv, const KvBenchOptions& options) {
  const auto ids = row_ids(options.rows);
  std::vector<float> rows(ids.size() * kDim), gradients(rows.size(), 1);
  kv.create_table("rows", TableOptions().dim(kDim).unbounded());
  double total_us = 0;
  for (int i = 0; i < options.warmup + options.iterations; ++i) {
    session.world().barrier().wait();
    const Nanos begun = monotonic_now();
    kv.pull_rows("rows", {ids.data(), ids.size()}, {rows.data(), rows.size()}).wait();
    kv.push_rows("rows", {ids.data(), ids.size()}, {gradients.data(), gradients.size()}).wait();
    kv.flush();
    kv.clock();
    const double span = max_over_ranks(session.world(), since_us(begun));
    if (i >= options.warmup) total_us += span;
  }
  const double moved =
      static_cast<double>(options.rows) * session.world_size() * options.iterations;
  return moved / total_us * 1e6;
}

double map_rows_per_s(const KvBenchOptions& options) {
  const auto ids = row_ids(options.rows);
  std::unordered_map<std::int64_t, std::vector<float>> map;
  std::vector<float> rows(ids.size() * kDim);
  double total_us = 0;
  for (int i = 0; i < 1 + options.iterations; ++i) {
    const Nanos begun = monotonic_now();
    for (std::size_t r = 0; r < ids.size(); ++r) {
      auto& row = map.try_emplace(ids[r], kDim).first->second;
      std::copy_n(row.data(), kDim, rows.data() + r * kDim);
    }
    for (const std::int64_t id : ids) {
      for (float& value : map[id]) value += 1;
    }
    if (i > 0) total_us += since_us(begun);
  }
  return static_cast<double>(options.rows) * options.iterations / total_us * 1e6;
}

// Of equal hosts.
int senders(const Session& session, const KVStore& kv) {
  return session.world_size() / (kv.sums_on_hosts() ? session.local_world_size() : 1);
}

double predicted_us(KVStore& kv, int workers, double gbit) {
  if (gbit == 0) return 0;
  ps::StoreLoad load;
  load.workers = workers;
  for (const auto& server : kv.stats()) {
    load.bytes_by_server.push_back(static_cast<std::size_t>(server.value_bytes));
  }
  load.slice_bytes = workers > kv.servers()
                         ? ps::Placement::kNarrowSliceBytes
                         : ps::Placement::kSliceBytes / load.bytes_by_server.size();
  return 1e6 * predict_push_pull_seconds(load, {0, 8e-9 / gbit});
}

}  // namespace

KvBenchResult measure_kv(Session& session, const KvBenchOptions& options) {
  Communicator& world = session.world();
  KVStore kv =
      session.kvstore(KVStoreOptions().consistency(Consistency::parse(options.consistency)));
  Tensors tensors(options, session.rank());
  for (std::size_t k = 0; k < tensors.out.size(); ++k) {
    kv.init(std::to_string(k), {tensors.out[k].data(), tensors.out[k].size()});
  }
  KvBenchResult result;
  result.workers = session.world_size();
  result.servers = kv.servers();
  result.sums_on_hosts = kv.sums_on_hosts();
  result.checked = options.consistency == "bulk_synchronous";  // else sums depend on time
  std::vector<double> spans, copies, reductions;
  std::vector<float> sum(options.beside.empty() ? 0 : tensors.in[0].size() * tensors.in.size());
  for (int i = 0; i < options.warmup + options.iterations; ++i) {
    world.barrier().wait();
    const double copy = session.rank() == 0 ? copy_us(tensors) : 0;
    tensors.out = tensors.in;
    world.barrier().wait();
    const Nanos begun = monotonic_now();
    push_and_pull(kv, tensors);
    const double span = max_over_ranks(world, since_us(begun));
    const double reduction = all_reduce_us(world, sum, options.beside);
    if (i >= options.warmup) {
      spans.push_back(span);
      copies.push_back(copy);
      reductions.push_back(reduction);
    }
    if (result.checked) {
      result.wrong += wrong_elements(tensors, session.world_size());
    }
    kv.clock();
  }
  result.p50_us = percentile(spans, 0.5);
  result.p99_us = percentile(spans, 0.99);
  result.memcpy_us = percentile(copies, 0.5);
  result.all_reduce_us = percentile(reductions, 0.5);
  result.predicted_us = predicted_us(kv, senders(session, kv), options.gbit);
  if (options.rows > 0) {
    result.rows_per_s = rows_per_s(session, kv, options);
    if (session.rank() == 0) result.map_rows_per_s = map_rows_per_s(options);
    world.barrier().wait();
  }
  result.wrong = static_cast<std::uint64_t>(sum_over_ranks(world, result.wrong));
  return result;
}

}  // namespace syncline::tools
