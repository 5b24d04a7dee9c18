#include "tests/conformance/case.h"

#include "kernels/reduce.h"
#include "plan/generators.h"
#include "plan/partition.h"

namespace syncline::conformance {

using harness::Bytes;

namespace {

// Kinds whose input, or output, is one block where the other tensor has size() of them.
bool gives_block(Collective kind) {
  return kind == Collective::kAllGather || kind == Collective::kGather;
}
bool gets_block(Collective kind) {
  return kind == Collective::kReduceScatter || kind == Collective::kScatter;
}

}  // namespace

std::string describe(const Case& what, int ranks) {
  std::string text = to_string(what.kind);
  text += std::string(" ") + to_string(what.type);
  if (plan::is_reduction(what.kind)) text += std::string(" ") + to_string(what.op);
  text += " count " + std::to_string(what.count) + " over " + std::to_string(ranks) + " ranks";
  text += ", schedule '" + what.schedule + "', root " + std::to_string(what.root);
  return text + (what.in_place ? ", in place" : ", out of place");
}

const Bytes& CaseRunner::contribution(const Case& what, int rank) {
  Bytes& found = contributions_[{what.type, what.op, rank}];
  if (found.empty()) found = harness::contribution(what.type, what.op, rank);
  return found;
}

const Bytes& CaseRunner::reduction(const Case& what) {
  Bytes& found = reductions_[{what.type, what.op, 0}];
  if (found.empty()) found = harness::reduction(what.type, what.op, world_.size());
  return found;
}

std::size_t CaseRunner::whole(const Case& what) const {
  const auto n = static_cast<std::size_t>(world_.size());
  return plan::has_blocks(what.kind) ? n * what.count : what.count;
}

// `out_` is the memory of the in-place call where that is the larger one, `in_` where one block
// remains.
void CaseRunner::lay_out(const Case& what) {
  const auto rank = static_cast<std::size_t>(world_.rank());
  const Bytes& mine = contribution(what, world_.rank());
  const std::size_t skew = (what.count + rank) % 3;
  const bool scatter = gets_block(what.kind);
  const bool gather = gives_block(what.kind);
  if (!what.in_place || scatter) {
    in_.reset(mine, what.type, 0, gather ? what.count : whole(what), skew);
  }
  if (what.in_place && scatter) return;
  if (!what.in_place) return out_.reset(what.type, scatter ? what.count : whole(what), skew + 1);
  if (!gather) return out_.reset(mine, what.type, 0, what.count, skew);
  out_.reset(what.type, whole(what), skew);
  harness::repeat(mine, what.type, 0, what.count, out_.part(rank * what.count, what.count).data());
}

Work CaseRunner::start(const Case& what) {
  CallOptions options;
  options.schedule = what.schedule;
  const std::size_t own = static_cast<std::size_t>(world_.rank()) * what.count;
  switch (what.kind) {
    case Collective::kAllReduce:
      if (what.in_place) return world_.all_reduce(out_.view(), what.op, options);
      return world_.all_reduce(in_.view(), out_.view(), what.op, options);
    case Collective::kReduceScatter: {
      const TensorView out = what.in_place ? in_.part(own, what.count) : out_.view();
      return world_.reduce_scatter(in_.view(), out, what.op, options);
    }
    case Collective::kAllGather: {
      const ConstTensorView in = what.in_place ? out_.part(own, what.count) : in_.view();
      return world_.all_gather(in, out_.view(), options);
    }
    case Collective::kBroadcast:
      return world_.broadcast(out_.view(), what.root, options);
    case Collective::kReduce:
      if (what.in_place) return world_.reduce(out_.view(), what.root, what.op, options);
      return world_.reduce(in_.view(), out_.view(), what.root, what.op, options);
    case Collective::kGather: {
      const ConstTensorView in = what.in_place ? out_.part(own, what.count) : in_.view();
      return world_.gather(in, out_.view(), what.root, options);
    }
    case Collective::kScatter: {
      const TensorView out = what.in_place ? in_.part(own, what.count) : out_.view();
      return world_.scatter(in_.view(), out, what.root, options);
    }
    case Collective::kAllToAll:
      return world_.all_to_all(in_.view(), out_.view(), options);
    case Collective::kBarrier:
      break;
  }
  return world_.barrier(options);
}

std::string CaseRunner::check_result(const Case& what) {
  const int rank = world_.rank();
  const auto differs = [&](const harness::Guarded& at, const Bytes& period, std::size_t phase,
                           std::size_t begin, std::size_t count) -> std::string {
    const std::size_t first = at.first_difference(period, phase, begin, count);
    if (first == count) return "";
    return "wrong from element " + std::to_string(begin + first) + " on";
  };
  const std::size_t own = static_cast<std::size_t>(rank) * what.count;
  switch (what.kind) {
    case Collective::kReduceScatter:
      if (what.in_place) return differs(in_, reduction(what), own, own, what.count);
      return differs(out_, reduction(what), own, 0, what.count);
    case Collective::kGather:
      if (rank != what.root) return out_.untouched() ? "" : "output of no root was written";
      [[fallthrough]];
    case Collective::kAllGather:
    case Collective::kAllToAll:
      for (int r = 0; r < world_.size(); ++r) {
        const std::size_t begin = static_cast<std::size_t>(r) * what.count;
        const std::size_t phase = what.kind == Collective::kAllToAll ? own : 0;
        const auto wrong = differs(out_, contribution(what, r), phase, begin, what.count);
        if (!wrong.empty()) return wrong;
      }
      return "";
    case Collective::kScatter:
      if (what.in_place) return differs(in_, contribution(what, rank), 0, 0, whole(what));
      return differs(out_, contribution(what, what.root), own, 0, what.count);
    case Collective::kBroadcast:
      return differs(out_, contribution(what, what.root), 0, 0, what.count);
    case Collective::kReduce:
      if (rank != what.root) {
        if (what.in_place) return differs(out_, contribution(what, rank), 0, 0, what.count);
        return out_.untouched() ? "" : "output of a rank other than root was written";
      }
      break;
    default:
      break;
  }
  return differs(out_, reduction(what), 0, 0, what.count);
}

std::string CaseRunner::check(const Case& what) {
  if (what.kind == Collective::kBarrier) return "";
  std::string wrong = check_result(what);
  if (!wrong.empty()) return wrong;
  const bool scatter = gets_block(what.kind);
  const bool uses_out = !(what.in_place && scatter);
  const bool uses_in = !what.in_place || scatter;
  if (uses_out && !out_.fences_intact()) return "memory around the output was written";
  if (uses_in && !in_.fences_intact()) return "memory around the input was written";
  if (!what.in_place && !in_.equals(contribution(what, world_.rank()))) {
    return "the input was changed";
  }
  return "";
}

std::string CaseRunner::run(const Case& what) {
  Case actual = what;
  if (what.kind == Collective::kBroadcast) actual.in_place = true;
  const bool root_only = what.kind == Collective::kGather || what.kind == Collective::kScatter;
  if (root_only && world_.rank() != what.root) actual.in_place = false;
  if (what.kind == Collective::kAllToAll) actual.in_place = false;
  std::string wrong;
  try {
    if (what.kind != Collective::kBarrier) lay_out(actual);
    start(actual).wait();
    wrong = check(actual);
  } catch (const Error& error) {
    wrong = error.what();
  }
  if (wrong.empty()) return wrong;
  return "rank " + std::to_string(world_.rank()) + ": " + describe(what, world_.size()) + ": " +
         wrong;
}

std::size_t CaseRunner::boundary_count(const Case& what, std::size_t segments, int delta) {
  const std::size_t probe = std::size_t{4} << 20;
  const PlanInfo chosen = world_.plan(what.kind, what.type, probe);
  const std::string name = what.schedule.empty() ? chosen.schedule : what.schedule;
  const plan::Schedule schedule =
      plan::find_generator(name)->make(what.kind, world_.size(), what.root);
  bool wide = false;
  for (const auto& rank : schedule.ranks) {
    for (const auto& lane : rank.lanes) {
      for (const auto& step : lane.steps) wide |= step.wire == plan::Wire::kAccumulator;
    }
  }
  const std::size_t width = size_of(wide ? kernels::accumulate_type(what.type) : what.type);
  std::size_t chunks = schedule.chunks;
  chunks /= static_cast<std::size_t>(plan::block_count(what.kind, world_.size()));
  const std::size_t exact = chunks * segments * (chosen.segment_bytes / width);
  return exact + static_cast<std::size_t>(delta);
}

}  // namespace syncline::conformance
