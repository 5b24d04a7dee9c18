#include "plan/cost.h"

#include <algorithm>
#include <cstdint>
#include <queue>
#include <vector>

#include "base/assert.h"
#include "plan/check/program.h"
#include "plan/hosts.h"
#include "plan/partition.h"

namespace syncline::plan {
namespace {

// Instances simulated beyond those in flight, to see the steady state.
constexpr int kSteadyInstances = 8;

struct Due {
  double time;
  int instance;
  int step;  // the number of steps added to it: the message of that send arrives
  // The queue serves the largest first: earlier time, then older instance, then program order.
  bool operator<(const Due& other) const {
    if (time != other.time) return time > other.time;
    if (instance != other.instance) return instance > other.instance;
    return step > other.step;
  }
};

class Simulation {
 public:
  Simulation(const Program& program, double chunk_bytes, double accumulate_ratio,
             const CostParams& c)
      : p_(program),
        c_(c),
        bytes_(chunk_bytes),
        ratio_(accumulate_ratio),
        cpu_free_(program.schedule->ranks.size()),
        port_out_(cpu_free_.size()),
        port_in_(cpu_free_.size()) {
    const auto hosts = ranks_by_host(c.host_of);
    within_host_ = hosts.size() == 1;
    port_of_.resize(c.host_of.size());
    for (const auto& host : hosts) {
      for (const int rank : host) {
        port_of_[static_cast<std::size_t>(rank)] = static_cast<std::size_t>(host.front());
      }
    }
    if (c.cores_per_host > 0 && c.ranks_per_host > c.cores_per_host) {
      cpu_scale_ = static_cast<double>(c.ranks_per_host) / c.cores_per_host;
      switch_ = c.switch_s;
    }
    link_steps();
  }

  // Completion time of each instance, in the order in which they complete.
  std::vector<double> run(int instances) {
    const int in_flight = std::min(std::max(1, c_.instances_in_flight), instances);
    instances_ = instances;
    missing_.resize(static_cast<std::size_t>(instances) * p_.steps.size());
    ready_.assign(missing_.size(), 0.0);
    left_.assign(static_cast<std::size_t>(instances), p_.size());
    for (; started_ < in_flight;) start(0);
    while (!due_.empty()) {
      const Due due = due_.top();
      due_.pop();
      if (due.step < p_.size()) {
        complete(due, execute(due));
      } else {
        arrive(due);
      }
    }
    return finished_;
  }

 private:
  void link_steps() {
    later_.resize(p_.steps.size());
    waits_.resize(p_.steps.size());
    const auto link = [this](int before, int i) {
      later_[static_cast<std::size_t>(before)].push_back(i);
      ++waits_[static_cast<std::size_t>(i)];
    };
    for (int i = 0; i < p_.size(); ++i) {
      const FlatStep& at = p_.at(i);
      if (at.index > 0) link(i - 1, i);
      for (const After& after : at.step->after) link(p_.named(at, after), i);
      if (at.partner >= 0 && at.step->kind != StepKind::kSend) link(at.partner, i);
    }
  }

  std::size_t cell(int instance, int step) const {
    return static_cast<std::size_t>(instance) * p_.steps.size() + static_cast<std::size_t>(step);
  }

  void start(double now) {
    const int instance = started_++;
    std::copy(waits_.begin(), waits_.end(),
              missing_.begin() + static_cast<std::ptrdiff_t>(cell(instance, 0)));
    for (int i = 0; i < p_.size(); ++i) {
      if (waits_[static_cast<std::size_t>(i)] == 0) due_.push({now, instance, i});
    }
  }

  // Messages within a host; local steps move memory whatever the links.
  bool local(const FlatStep& at) const {
    if (within_host_ || port_of_.empty()) return within_host_;
    return at.step->peer < 0 || port(at.rank) == port(at.step->peer);
  }

  std::size_t port(int rank) const {
    const auto index = static_cast<std::size_t>(rank);
    return port_of_.empty() ? index : port_of_[index];
  }

  double cpu_seconds(const FlatStep& at) const {
    const Step& step = *at.step;
    const bool combines = step.kind == StepKind::kRecvReduce || step.kind == StepKind::kReduce;
    const bool near = local(at);
    const double copy = near ? c_.local.copy_s_per_byte : c_.copy_s_per_byte;
    const double moved = combines ? bytes_ * c_.gamma_s_per_byte : wire_bytes(step) * copy;
    return cpu_scale_ * ((near ? c_.local.step_s : c_.step_s) + moved);
  }

  double wire_bytes(const Step& step) const {
    return step.wire == Wire::kAccumulator ? bytes_ * ratio_ : bytes_;
  }

  // Returns when the step is over for its own rank.
  double execute(const Due& due) {
    const FlatStep& at = p_.at(due.step);
    double& cpu = cpu_free_[static_cast<std::size_t>(at.rank)];
    cpu = std::max(cpu, due.time) + cpu_seconds(at);
    return cpu;
  }

  double port_seconds(const Step& send) const { return wire_bytes(send) * c_.beta_s_per_byte; }

  void complete(const Due& due, double end) {
    const FlatStep& at = p_.at(due.step);
    if (at.step->kind == StepKind::kSend && local(at)) {
      release(due.instance, at.partner, end + c_.local.alpha_s + switch_);
    } else if (at.step->kind == StepKind::kSend) {
      double& free = port_out_[port(at.rank)];
      free = std::max(end, free) + port_seconds(*at.step);
      due_.push({free, due.instance, due.step + p_.size()});
    }
    for (const int i : later_[static_cast<std::size_t>(due.step)]) {
      if (i != at.partner) release(due.instance, i, end);
    }
    latest_ = std::max(latest_, end);
    if (--left_[static_cast<std::size_t>(due.instance)] > 0) return;
    finished_.push_back(latest_);
    if (started_ < instances_) start(end);
  }

  // The last byte left the sender's port; a busy receiving port does not hold that one up.
  void arrive(const Due& due) {
    const FlatStep& send = p_.at(due.step - p_.size());
    double& free = port_in_[port(send.step->peer)];
    free = std::max(due.time, free + port_seconds(*send.step));
    release(due.instance, send.partner, free + c_.alpha_s + switch_);
  }

  void release(int instance, int step, double time) {
    const std::size_t next = cell(instance, step);
    ready_[next] = std::max(ready_[next], time);
    if (--missing_[next] == 0) due_.push({ready_[next], instance, step});
  }

  const Program& p_;
  const CostParams& c_;
  const double bytes_;  // of one chunk of one segment
  const double ratio_;  // accumulate type to element type
  double cpu_scale_ = 1;
  double switch_ = 0;
  bool within_host_ = false;
  std::vector<double> cpu_free_, port_out_, port_in_;
  std::vector<std::size_t> port_of_;  // by rank: the host's first; empty: all have their own
  std::vector<std::vector<int>> later_;
  std::vector<int> waits_;
  std::vector<int> missing_;   // by instance and step: predecessors to come
  std::vector<double> ready_;  // by instance and step
  std::vector<int> left_;      // by instance: steps to come
  std::vector<double> finished_;
  std::priority_queue<Due> due_;
  int started_ = 0;
  int instances_ = 0;
  double latest_ = 0;
};

CostParams memory_cost() {
  CostParams c;
  c.alpha_s = 0.15e-6;
  c.gamma_s_per_byte = 1 / 24e9;
  c.copy_s_per_byte = 1 / 36e9;
  c.step_s = 40e-9;
  c.switch_s = 2e-6;
  return c;
}

CostParams network_cost() {
  CostParams c;
  c.alpha_s = 15e-6;
  c.beta_s_per_byte = 1 / 1.2e9;
  c.gamma_s_per_byte = 1 / 24e9;
  c.copy_s_per_byte = 1 / 8e9;
  c.step_s = 2e-6;
  c.switch_s = 5e-6;
  return c;
}

// TCP between processes of one machine: no port limits it, both ends' copies and checksums do.
constexpr LocalCost kLoopback{8e-6, 1 / 5e9, 3e-6};

}  // namespace

CostParams default_cost(std::string_view transport, int ranks_per_host, int cores_per_host) {
  const bool memory = transport == "inproc" || transport == "shm";
  CostParams c = memory ? memory_cost() : network_cost();
  const CostParams within = memory_cost();
  const bool loops = !memory && transport != "shm+tcp";
  c.local = loops ? kLoopback : LocalCost{within.alpha_s, within.copy_s_per_byte, within.step_s};
  c.ranks_per_host = ranks_per_host;
  c.cores_per_host = cores_per_host;
  return c;
}

double predict_seconds(const Schedule& schedule, std::size_t bytes, DType dtype,
                       std::size_t segment_bytes, const CostParams& params) {
  const Result<Program> program = flatten(schedule);
  SYNCLINE_ASSERT(program.ok(), "only schedules that pass check() can be predicted");
  if (program.value().steps.empty()) return 0;
  const std::size_t count = bytes / size_of(dtype);
  const auto blocks = static_cast<std::size_t>(block_count(schedule.kind, schedule.size()));
  const std::size_t whole = (count + blocks - 1) / blocks * blocks;
  const std::size_t segments = segments_of(schedule, whole, dtype, segment_bytes);
  const double chunk = static_cast<double>(bytes) / schedule.chunks / static_cast<double>(segments);
  const double ratio =
      static_cast<double>(accumulate_bytes(dtype)) / static_cast<double>(size_of(dtype));
  const auto simulated = static_cast<int>(
      std::min<std::size_t>(segments, std::max(1, params.instances_in_flight) + kSteadyInstances));
  const std::vector<double> finished =
      Simulation(program.value(), chunk, ratio, params).run(simulated);
  SYNCLINE_ASSERT(static_cast<int>(finished.size()) == simulated, "a proved schedule ends");
  const double total = finished.back();
  if (segments == finished.size()) return total;
  // finished[k] - finished[j] over whole rounds of the window; the end of the run, where it drains,
  // is part of `total` already.
  const std::size_t last =
      finished.size() - static_cast<std::size_t>(std::max(1, params.instances_in_flight));
  const double period = (finished[last] - finished[0]) / static_cast<double>(last);
  return total + period * static_cast<double>(segments - finished.size());
}

}  // namespace syncline::plan
