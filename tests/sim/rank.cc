#include "tests/sim/rank.h"

namespace syncline::sim {
namespace {

// Small integers: every sum is exact.
float contribution(int rank, int index, std::size_t element) {
  return static_cast<float>(
      (element * 7 + static_cast<std::size_t>(index) * 3 + static_cast<std::size_t>(rank) * 5) %
      13);
}

}  // namespace

SimRank::SimRank(Network& network, const Scenario& scenario, const Identity& identity,
                 std::uint64_t generation, Log log)
    : SimProcess(network, identity, scenario.seed * 31 + generation, std::move(log)),
      scenario_(scenario),
      script_(scenario.calls) {
  if (scenario.dissenter == rank_) {
    PlannedCall& call = script_[static_cast<std::size_t>(scenario.dissent)];
    if (call.kind == Collective::kAllReduce) {
      if (scenario.seed % 2 == 0) {
        call.count += 3;
      } else {
        call.op = ReduceOp::kMax;  // as many bytes: nothing but the fingerprint tells
      }
    } else {
      call = {};
      call.kind = Collective::kAllReduce;
      call.count = 33;
    }
  }
}

SimRank::~SimRank() { die(); }

void SimRank::on_joined(std::vector<exec::Channel*> peers) {
  impl_ = open_world(context_, rank_, std::move(peers));
}

void SimRank::on_death() {
  impl_.reset();
  running_.clear();
}

bool SimRank::step() {
  if (joining_) {
    join();
    return impl_ != nullptr;
  }
  bool moved = context_->engine->step();
  collect();
  const Nanos now = network_.now();
  while (next_call_ < script_.size() && now >= computes_until_ &&
         running_.size() < static_cast<std::size_t>(scenario_.window)) {
    start(static_cast<int>(next_call_++));
    moved = true;
    if (random_() % 3 == 0) {
      computes_until_ = now + static_cast<Nanos>(random_() % (50 * kMillisecond));
    }
  }
  collect();
  return moved;
}

void SimRank::start(int index) {
  const PlannedCall& call = script_[static_cast<std::size_t>(index)];
  auto running = std::make_unique<Running>();
  running->index = index;
  running->started = network_.now();
  const auto ranks = static_cast<std::size_t>(scenario_.ranks);
  const bool many_in = call.kind == Collective::kReduceScatter;
  const bool many_out = call.kind == Collective::kAllGather;
  running->in.resize(call.count * (many_in ? ranks : 1));
  for (std::size_t i = 0; i < running->in.size(); ++i) {
    running->in[i] = contribution(rank_, index, i);
  }
  running->in_before = running->in;
  running->out.resize(call.count * (many_out ? ranks : 1), -1.0f);
  running->work = issue(call, *running);
  running_.push_back(std::move(running));
}

Work SimRank::issue(const PlannedCall& call, Running& r) {
  CallOptions options;
  options.schedule = call.schedule;
  const ConstTensorView in(r.in.data(), r.in.size());
  const TensorView out(r.out.data(), r.out.size());
  Communicator& world = impl_->world;
  switch (call.kind) {
    case Collective::kAllReduce:
      if (call.in_place) {
        r.out = r.in;
        return world.all_reduce(TensorView(r.out.data(), r.out.size()), call.op, options);
      }
      return world.all_reduce(in, out, call.op, options);
    case Collective::kReduceScatter:
      return world.reduce_scatter(in, out, ReduceOp::kSum, options);
    case Collective::kAllGather:
      return world.all_gather(in, out, options);
    case Collective::kBroadcast:
      r.out = r.in;
      return world.broadcast(TensorView(r.out.data(), r.out.size()), call.root, options);
    case Collective::kReduce:
      return world.reduce(in, out, call.root, ReduceOp::kSum, options);
    default:
      return world.barrier(options);
  }
}

void SimRank::collect() {
  std::erase_if(running_, [this](const std::unique_ptr<Running>& r) {
    if (!r->work.done()) return false;
    CallEnd end;
    end.index = r->index;
    end.started = r->started;
    end.status = r->work.status();
    end.right = !end.status.ok() || is_right(script_[static_cast<std::size_t>(r->index)], *r);
    end.input_intact = r->in == r->in_before;
    ends_.push_back(std::move(end));
    return true;
  });
}

bool SimRank::is_right(const PlannedCall& call, const Running& r) const {
  const auto sum = [&](std::size_t element) {
    float total = 0;
    for (int rank = 0; rank < scenario_.ranks; ++rank) {
      total += contribution(rank, r.index, element);
    }
    return total;
  };
  for (std::size_t i = 0; i < r.out.size(); ++i) {
    float expected = 0;
    switch (call.kind) {
      case Collective::kAllReduce:
        expected = sum(i);
        break;
      case Collective::kReduceScatter:
        expected = sum(static_cast<std::size_t>(rank_) * call.count + i);
        break;
      case Collective::kAllGather:
        expected = contribution(static_cast<int>(i / call.count), r.index, i % call.count);
        break;
      case Collective::kBroadcast:
        expected = contribution(call.root, r.index, i);
        break;
      case Collective::kReduce:
        expected = rank_ == call.root ? sum(i) : -1.0f;
        break;
      default:
        break;
    }
    if (r.out[i] != expected) return false;
  }
  return true;
}

std::string SimRank::waiting() const {
  if (joining_) return joining_->waiting();
  std::string text = "rank " + std::to_string(rank_) + ": next call " + std::to_string(next_call_) +
                     ", waiting in";
  for (const auto& r : running_) text += " #" + std::to_string(r->index);
  return text;
}

}  // namespace syncline::sim
