#include "tests/sim/rank.h"

#include <algorithm>

#include "session/settings.h"

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
    : network_(network),
      scenario_(scenario),
      identity_(identity),
      rank_(identity.rank),
      log_(std::move(log)),
      random_(scenario.seed * 31 + generation),
      script_(scenario.calls),
      peers_(static_cast<std::size_t>(scenario.ranks), nullptr) {
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
  exec::EngineOptions engine;
  engine.rank = rank_;
  engine.silence = kSilence;
  engine.stall = 0;
  engine.log = log_;
  engine.stepped_by = &network_;
  context_ = std::make_shared<SessionContext>();
  context_->engine = std::make_shared<exec::Engine>(std::move(engine));
  session::choose_transport(*context_, "tcp", 1, transport::kFrameBytesMax);
  joining_ =
      std::make_unique<Joining>(network_, context_->engine->poller(), identity_, random_, log_);
  incarnation_ = joining_->incarnation();
}

SimRank::~SimRank() { die(); }

void SimRank::join() {
  joining_->progress(network_.now());
  had_table_ |= joining_->has_table();
  if (joining_->view() != nullptr && !view_) view_ = *joining_->view();
  if (!joining_->ended()) return;
  join_status_ = joining_->status();
  if (!join_status_.ok()) return die();
  const std::unique_ptr<Joining> ended = std::move(joining_);
  cluster::Mesh mesh = ended->take_mesh();
  healer_ =
      std::make_unique<cluster::Healer>(context_->engine->poller(), network_, ended->mesh_config(),
                                        std::move(mesh.acceptor), ended->take_other_listeners());
  for (auto& [peer, socket] : mesh.sockets) {
    const auto& member = view_->members[static_cast<std::size_t>(peer)];
    if (socket.peer_incarnation != member.incarnation) wrong_peer_ = peer;
    link_to(std::move(socket));
  }
  context_->engine->add_ticker([this](Nanos now) { healer_->progress(now); });
  impl_ = open_world(context_, rank_, std::move(peers_));
}

void SimRank::link_to(cluster::AuthenticatedSocket socket) {
  const int peer = socket.peer_rank;
  cluster::LinkOptions options;
  options.self_rank = rank_;
  options.peer_rank = peer;
  options.peer_host = "h" + std::to_string(peer);
  options.view = view_->view;
  options.self_incarnation = incarnation_;
  options.peer_incarnation = view_->members[static_cast<std::size_t>(peer)].incarnation;
  options.silence = kSilence;
  options.suspect = INT64_MAX;
  options.log = log_;
  if (const Status status = healer_->prepare(peer, options); !status.ok()) log_(status.message());
  options.on_destroy = [this, peer, destroy = options.on_destroy] {
    links_.erase(peer);
    destroy();
  };
  auto link = std::make_unique<cluster::LinkEndpoint>(context_->engine->poller(), network_,
                                                      std::move(socket.stream), std::move(options));
  healer_->add(peer, link.get());
  links_[peer] = link.get();
  peers_[static_cast<std::size_t>(peer)] = context_->engine->add_channel(
      peer, "rank " + std::to_string(peer) + " (h" + std::to_string(peer) + ")", std::move(link));
}

void SimRank::die() {
  joining_.reset();
  impl_.reset();
  running_.clear();
  context_.reset();
  healer_.reset();
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
