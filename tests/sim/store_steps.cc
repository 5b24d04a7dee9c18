#include "tests/sim/store_steps.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "ps/client.h"
#include "ps/store_cost.h"
#include "tests/sim/store_worker.h"

namespace syncline::sim {
namespace {

constexpr Nanos kStepsTurn = 20 * kMicrosecond;
constexpr Nanos kStepsLimit = 1000 * kSecond;
constexpr std::uint64_t kFarSeed = 4;  // whose connections lead to other hosts

// Opens the store, makes or finds the keys, then does steps when it is told.
class StepsWorker : public SimProcess {
 public:
  StepsWorker(Network& network, const StoreScenario& scenario, const Identity& identity, Log log)
      : SimProcess(network, identity, static_cast<std::uint64_t>(identity.rank) + 1,
                   std::move(log)),
        scenario_(scenario) {}
  ~StepsWorker() override { die(); }

  void turn() {
    if (joining_) return join();
    context_->engine->step();
    if (work_ != nullptr && !work_->done()) return;
    if (work_ != nullptr && !work_->status().ok()) problem_ = work_->status().to_string();
    work_.reset();
    prepare();
  }
  bool ready() const { return client_ != nullptr && found_ == scenario_.keys.size(); }
  bool steps() const { return !works_.empty(); }
  const std::string& problem() const { return problem_; }

  void begin_step(std::uint64_t clock) {
    clock_ = clock;
    for (std::size_t k = 0; k < scenario_.keys.size(); ++k) {
      std::fill(values_[k].begin(), values_[k].end(), static_cast<float>(rank_ + 1));
      ps::Client::Call call;
      call.clock = clock;
      call.timeout = kStepsLimit;
      works_.push_back(client_->push_pull(scenario_.keys[k], values_[k].data(), call));
    }
  }
  // True once all answers are there, and right.
  bool end_step() {
    const auto done = [](const auto& work) { return work->done(); };
    if (!std::all_of(works_.begin(), works_.end(), done)) return false;
    const auto workers = static_cast<float>(scenario_.workers);
    const float sum = workers * (workers + 1) / 2;
    for (const auto& value : values_) {
      const auto right = [sum](float x) { return x == sum; };
      if (!std::all_of(value.begin(), value.end(), right)) problem_ = "a wrong sum";
    }
    works_.clear();
    client_->clock(clock_ + 1);
    return true;
  }

 private:
  void on_joined(std::vector<exec::Channel*> peers) override {
    context_->engine->start();
    client_ = std::make_shared<ps::Client>(
        worker_links(*context_, scenario_, rank_, peers, kStepsLimit), std::uint16_t{1});
    for (const auto& key : scenario_.keys) values_.emplace_back(key.count);
    work_ = client_->begin_open({}, kStepsLimit);
  }
  void on_death() override {
    if (client_ != nullptr) context_->engine->stop(0);
    client_.reset();
  }
  void prepare() {
    if (ready() || client_ == nullptr) return;
    if (asked_) {
      if (rank_ == 0) client_->publish(scenario_.keys[found_]);
      asked_ = false;
      ++found_;
      return;
    }
    asked_ = true;
    const auto& key = scenario_.keys[found_];
    work_ = rank_ == 0 ? client_->begin_create(key, values_[found_].data(), kStepsLimit).value()
                       : client_->begin_lookup(key.name, kStepsLimit).work;
  }

  const StoreScenario& scenario_;
  std::shared_ptr<ps::Client> client_;
  std::shared_ptr<WorkState> work_;
  std::vector<std::vector<float>> values_;
  std::size_t found_ = 0;
  bool asked_ = false;
  std::uint64_t clock_ = 0;
  std::vector<std::shared_ptr<WorkState>> works_;
  std::string problem_;
};

class StepsWorld {
 public:
  explicit StepsWorld(const StepsPlan& plan) : plan_(plan), network_(kFarSeed) {
    scenario_.workers = plan.workers;
    scenario_.servers = plan.servers;
    scenario_.network.ranks = plan.workers + plan.servers;
    scenario_.network.seed = kFarSeed;
    place();
    for (int a = 0; a < scenario_.network.ranks; ++a) {
      network_.set_port_rate(a, plan.bytes_per_ms);
      for (int b = 0; b < scenario_.network.ranks; ++b)
        network_.path(a, b, 0).latency = plan.latency;
    }
    const auto log = [](const std::string&) {};
    for (int rank = 0; rank < scenario_.network.ranks; ++rank) {
      Identity identity;
      identity.rank = identity.host = rank;
      identity.world_size = scenario_.network.ranks;
      if (rank < plan.workers) {
        workers_.push_back(std::make_unique<StepsWorker>(network_, scenario_, identity, log));
      } else {
        servers_.push_back(std::make_unique<StoreServer>(network_, scenario_, identity, log));
      }
    }
  }

  StepsOutcome go() {
    const bool began = until([this] {
      return std::all_of(workers_.begin(), workers_.end(),
                         [](const auto& w) { return w->ready(); });
    });
    for (int step = 0; began && step < plan_.steps && outcome_.problem.empty(); ++step) {
      const Nanos begun = network_.now();
      for (auto& worker : workers_) worker->begin_step(static_cast<std::uint64_t>(step));
      until([this] {
        bool all = true;
        for (auto& worker : workers_) all = (!worker->steps() || worker->end_step()) && all;
        return all;
      });
      outcome_.seconds.push_back(static_cast<double>(network_.now() - begun) / kSecond);
    }
    return outcome_;
  }

 private:
  // As a session does.
  void place() {
    const bool narrow = plan_.workers > plan_.servers;
    ps::Placement placement(plan_.servers,
                            narrow ? ps::Placement::kNarrowSliceBytes : ps::Placement::kSliceBytes);
    ps::StoreLoad load;
    load.workers = plan_.workers;
    for (std::size_t k = 0; k < plan_.counts.size(); ++k) {
      ps::KeyDescription key;
      key.name = "k" + std::to_string(k);
      key.key = static_cast<std::uint32_t>(k + 1);
      key.count = plan_.counts[k];
      key.slices = placement.add(plan_.counts[k], sizeof(float));
      for (const auto& slice : key.slices) {
        load.slice_bytes = std::max(load.slice_bytes, slice.count * sizeof(float));
      }
      scenario_.keys.push_back(std::move(key));
    }
    load.bytes_by_server = placement.bytes_by_server();
    const auto& bytes = load.bytes_by_server;
    const auto most = static_cast<double>(*std::max_element(bytes.begin(), bytes.end()));
    const auto all =
        static_cast<double>(std::accumulate(bytes.begin(), bytes.end(), std::size_t{0}));
    outcome_.max_over_mean = most * static_cast<double>(bytes.size()) / all;
    const ps::PortCost port{static_cast<double>(plan_.latency) / kSecond,
                            1e-3 / static_cast<double>(plan_.bytes_per_ms)};
    outcome_.predicted_seconds = predict_push_pull_seconds(load, port);
  }

  template <class Condition>
  bool until(const Condition& condition) {
    const Nanos limit = network_.now() + kStepsLimit;
    while (!condition()) {
      network_.advance(kStepsTurn);
      for (auto& worker : workers_) {
        worker->turn();
        if (!worker->problem().empty()) outcome_.problem = worker->problem();
      }
      for (auto& server : servers_) server->step();
      if (network_.now() > limit) outcome_.problem = "no end";
      if (!outcome_.problem.empty()) return false;
    }
    return true;
  }

  const StepsPlan& plan_;
  StoreScenario scenario_;
  Network network_;
  std::vector<std::unique_ptr<StepsWorker>> workers_;
  std::vector<std::unique_ptr<StoreServer>> servers_;
  StepsOutcome outcome_;
};

}  // namespace

StepsOutcome run(const StepsPlan& plan) { return StepsWorld(plan).go(); }

}  // namespace syncline::sim
