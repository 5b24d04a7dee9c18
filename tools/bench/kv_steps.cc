#include "tools/bench/kv_steps.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "syncline/kvstore.h"
#include "tools/bench/across_ranks.h"
#include "tools/bench/bandwidth.h"

namespace syncline::tools {
namespace {

struct Step {
  double span_us = 0;
  double first_us = 0, last_us = 0;  // since the step began: when these layers' weights were there
};

// One worker's layers, a key each.
class Layers {
 public:
  Layers(Session& session, const KvBenchOptions& options)
      : session_(session), options_(options), store_(session.kvstore()) {
    const std::size_t count = std::max<std::size_t>(options.bytes / sizeof(float), 1);
    gradients_.assign(static_cast<std::size_t>(options.keys), std::vector<float>(count, 1));
    weights_ = gradients_;
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      store_.init(name(i), {weights_[i].data(), count});
    }
  }

  Step step(bool priorities) {
    session_.world().barrier().wait();
    const Nanos begun = monotonic_now();
    std::vector<Nanos> arrived(weights_.size());
    backward(priorities);
    store_.clock();
    std::vector<Work> pulls = pull_all(priorities, arrived);
    forward(pulls);
    Step step;
    step.span_us = max_over_ranks(session_.world(), since(begun, monotonic_now()));
    step.first_us = since(begun, arrived.front());
    step.last_us = since(begun, arrived.back());
    return step;
  }

  int servers() const { return store_.servers(); }
  // Bulk synchronous: every gradient is 1.
  std::uint64_t wrong() const {
    std::uint64_t wrong = 0;
    for (const auto& layer : weights_) {
      wrong += static_cast<std::uint64_t>(std::count_if(layer.begin(), layer.end(), [&](float x) {
        return x != static_cast<float>(session_.world_size());
      }));
    }
    return wrong;
  }

 private:
  static std::string name(std::size_t layer) { return "layer" + std::to_string(layer); }
  static int priority(std::size_t layer, bool priorities) {
    return priorities ? -static_cast<int>(layer) : 0;
  }
  static double since(Nanos begun, Nanos at) {
    return static_cast<double>(at - begun) / kMicrosecond;
  }
  void compute() const {
    std::this_thread::sleep_for(std::chrono::microseconds(options_.layer_us));
  }

  void backward(bool priorities) {
    for (std::size_t i = gradients_.size(); i-- > 0;) {
      compute();
      store_.push(name(i), {gradients_[i].data(), gradients_[i].size()},
                  Push().priority(priority(i, priorities)));
    }
  }

  std::vector<Work> pull_all(bool priorities, std::vector<Nanos>& arrived) {
    std::vector<Work> pulls;
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      pulls.push_back(store_.pull(name(i), {weights_[i].data(), weights_[i].size()},
                                  Pull().priority(priority(i, priorities))));
      pulls.back().on_complete([&at = arrived[i]](const Status&) { at = monotonic_now(); });
    }
    return pulls;
  }

  void forward(std::vector<Work>& pulls) const {
    for (Work& pull : pulls) {
      pull.wait();
      compute();
    }
  }

  Session& session_;
  const KvBenchOptions& options_;
  KVStore store_;
  std::vector<std::vector<float>> gradients_, weights_;
};

KvStepTimes medians(const std::vector<Step>& steps) {
  const auto of = [&](double Step::*field) {
    std::vector<double> values;
    for (const Step& step : steps) values.push_back(step.*field);
    return percentile(values, 0.5);
  };
  return {of(&Step::span_us), of(&Step::first_us), of(&Step::last_us)};
}

nlohmann::json to_json(const KvStepTimes& times) {
  return {{"p50_us", times.span_us}, {"first_us", times.first_us}, {"last_us", times.last_us}};
}

std::string line_of(const char* name, const KvStepTimes& times) {
  return fmt::format(
      "  {:<18}{:>10.0f} us a step; weights of the first layer after {:.0f} us, of the last after "
      "{:.0f} us\n",
      name, times.span_us, times.first_us, times.last_us);
}

}  // namespace

KvStepsResult measure_kv_steps(Session& session, const KvBenchOptions& options) {
  KvStepsResult result;
  Layers layers(session, options);
  std::vector<Step> with, without;
  for (int i = 0; i < options.warmup + options.iterations; ++i) {
    for (const bool priorities : {true, false}) {
      const Step step = layers.step(priorities);
      if (i >= options.warmup) (priorities ? with : without).push_back(step);
      result.wrong += layers.wrong();
    }
  }
  result.workers = session.world_size();
  result.servers = layers.servers();
  result.by_priority = medians(with);
  result.in_order = medians(without);
  result.wrong = static_cast<std::uint64_t>(sum_over_ranks(session.world(), result.wrong));
  return result;
}

std::string kv_steps_text(const KvBenchOptions& options, const KvStepsResult& r) {
  return fmt::format("{} workers, {} servers: {} layers of {} bytes, {} us each way\n", r.workers,
                     r.servers, options.keys, options.bytes, options.layer_us) +
         line_of("front layers first", r.by_priority) + line_of("in order", r.in_order) +
         fmt::format("  with priorities a step takes {:.3f} times as long\n  wrong elements  {}\n",
                     r.by_priority.span_us / r.in_order.span_us, r.wrong);
}

std::string kv_steps_json(const KvBenchOptions& options, const KvStepsResult& r) {
  const nlohmann::json all = {{"workers", r.workers},
                              {"servers", r.servers},
                              {"layers", options.keys},
                              {"bytes", options.bytes},
                              {"layer_us", options.layer_us},
                              {"by_priority", to_json(r.by_priority)},
                              {"in_order", to_json(r.in_order)},
                              {"wrong", r.wrong}};
  return all.dump(2) + "\n";
}

}  // namespace syncline::tools
