#include "plan/check/form.h"

#include "plan/generators.h"
#include "plan/partition.h"
#include "plan/text.h"

namespace syncline::plan {
namespace {

constexpr std::size_t kPlacesMax = std::size_t{1} << 24;  // ranks * (chunks + slots)
constexpr std::size_t kLanesMax = 0xffff;                 // and steps of a lane

Status invalid(const std::string& what) {
  return Status(Code::kInvalidArgument, "schedule: " + what);
}

bool is_message(StepKind kind) {
  return kind == StepKind::kSend || kind == StepKind::kRecv || kind == StepKind::kRecvReduce;
}

bool combines(StepKind kind) { return kind == StepKind::kRecvReduce || kind == StepKind::kReduce; }

Status check_slice(const Schedule& s, const FlatStep& at, const Slice& slice) {
  const std::string name = to_text(slice);
  const RankProgram& program = s.ranks[static_cast<std::size_t>(at.rank)];
  if (slice.chunk >= s.chunks) {
    return step_error(at, name + ": there are only " + std::to_string(s.chunks) + " chunks");
  }
  const bool is_scratch = slice.buf == Buf::kScratch;
  if (is_scratch ? slice.slot >= program.scratch_slots : slice.slot != 0) {
    return step_error(at, name + ": the rank has " + std::to_string(program.scratch_slots) +
                              " scratch slots, slots of other buffers are 0");
  }
  const bool exists = is_scratch || (slice.buf == Buf::kIn && has_in(s, at.rank, slice.chunk)) ||
                      (slice.buf == Buf::kOut && has_out(s, at.rank, slice.chunk)) ||
                      (slice.buf == Buf::kAcc && is_reduction(s.kind));
  if (!exists) {
    return step_error(at, "rank " + std::to_string(at.rank) + " has no " + name + " in this " +
                              to_string(s.kind));
  }
  return {};
}

Status check_slices(const Schedule& s, const FlatStep& at) {
  const Step& step = *at.step;
  const Slice* used[3] = {nullptr, nullptr, nullptr};
  if (step.kind != StepKind::kSend) used[0] = &step.dst;
  if (step.kind != StepKind::kRecv) used[1] = &step.a;
  if (step.kind == StepKind::kReduce) used[2] = &step.b;
  const Slice* first = used[0] != nullptr ? used[0] : used[1];
  for (const Slice* slice : used) {
    if (slice == nullptr) continue;
    if (Status status = check_slice(s, at, *slice); !status.ok()) return status;
    if (slice->chunk != first->chunk) {
      return step_error(at, "mixes chunks " + std::to_string(first->chunk) + " and " +
                                std::to_string(slice->chunk));
    }
  }
  if (used[0] != nullptr && step.dst.buf == Buf::kIn) return step_error(at, "writes the input");
  return {};
}

Status check_result_rules(const Schedule& s, const FlatStep& at) {
  const Step& step = *at.step;
  if (combines(step.kind) && !is_reduction(s.kind)) {
    return step_error(at, std::string(to_string(s.kind)) + " combines nothing");
  }
  const bool makes_result = is_reduction(s.kind) && step.dst.buf == Buf::kOut &&
                            (combines(step.kind) || step.kind == StepKind::kCopy);
  if (makes_result && !step.finish) {
    return step_error(at,
                      "writes the result without finish, chunk " + std::to_string(step.dst.chunk));
  }
  if (step.finish && !makes_result) {
    return step_error(at, "finish belongs to a step of a reduction that makes a value of out");
  }
  return {};
}

// Who gives and who gets where the kind leaves no choice.
Status check_roles(const Schedule& s, int rank) {
  const RankProgram& p = s.ranks[static_cast<std::size_t>(rank)];
  const std::string who =
      "rank " + std::to_string(rank) + ": in " + std::string(to_string(s.kind)) + " ";
  const bool root_gets = s.kind == Collective::kReduce || s.kind == Collective::kGather;
  const bool root_gives = s.kind == Collective::kBroadcast || s.kind == Collective::kScatter;
  if (root_gets && p.receives != (rank == s.root)) {
    return invalid(who + "exactly the root receives");
  }
  if (root_gives && p.contributes != (rank == s.root)) {
    return invalid(who + "exactly the root contributes");
  }
  const bool all_give = s.kind == Collective::kAllGather || s.kind == Collective::kGather ||
                        s.kind == Collective::kAllToAll;
  if (all_give && !p.contributes) return invalid(who + "every rank contributes");
  const bool all_get = s.kind == Collective::kScatter || s.kind == Collective::kAllToAll;
  if (all_get && !p.receives) return invalid(who + "every rank receives");
  return {};
}

}  // namespace

Status check_head(const Schedule& s) {
  if (s.ranks.empty() || s.size() > kRanksMax) {
    return invalid("has " + std::to_string(s.ranks.size()) + " ranks, 1 to " +
                   std::to_string(kRanksMax) + " are possible");
  }
  if (static_cast<int>(s.kind) >= kCollectiveCount) return invalid("unknown kind of collective");
  if (s.chunks == 0) return invalid("has no chunks");
  if (s.chunks % block_count(s.kind, s.size()) != 0) {
    return invalid(std::to_string(s.chunks) + " chunks do not subdivide the blocks of " +
                   std::to_string(s.size()) + " ranks");
  }
  if (s.root < 0 || s.root >= s.size()) {
    return invalid("root " + std::to_string(s.root) + " is not one of " + std::to_string(s.size()) +
                   " ranks");
  }
  std::size_t places = 0;
  bool any_contributes = false;
  for (int rank = 0; rank < s.size(); ++rank) {
    const RankProgram& p = s.ranks[static_cast<std::size_t>(rank)];
    any_contributes |= p.contributes;
    places += std::size_t{s.chunks} + p.scratch_slots;
    const std::string who = "rank " + std::to_string(rank);
    bool too_long = p.lanes.size() > kLanesMax;
    for (const Lane& lane : p.lanes) too_long |= lane.steps.size() > kLanesMax;
    if (too_long) return invalid(who + ": at most 65535 lanes of at most 65535 steps are possible");
    if (Status status = check_roles(s, rank); !status.ok()) return status;
  }
  if (!any_contributes) return invalid("no rank contributes");
  if (places > kPlacesMax) return Status(Code::kUnsupported, "schedule: too many chunks to prove");
  return {};
}

Status check_form(const Schedule& s, const FlatStep& at) {
  const Step& step = *at.step;
  if (step.kind > StepKind::kReduce) return step_error(at, "unknown kind of step");
  if (is_message(step.kind)) {
    if (step.peer < 0 || step.peer >= s.size() || step.peer == at.rank) {
      return step_error(at, "peer " + std::to_string(step.peer) + " is not another of " +
                                std::to_string(s.size()) + " ranks");
    }
  } else if (step.peer != -1) {
    return step_error(at, "a local step has no peer");
  }
  if (Status status = check_slices(s, at); !status.ok()) return status;
  if (step.kind == StepKind::kSend) {
    const bool partial = step.a.buf == Buf::kAcc || step.a.buf == Buf::kScratch;
    if (step.wire != (partial ? Wire::kAccumulator : Wire::kElement)) {
      return step_error(at,
                        "wrong wire type: in and out travel as elements, acc and scratch as "
                        "accumulators, chunk " +
                            std::to_string(step.a.chunk));
    }
  }
  return check_result_rules(s, at);
}

}  // namespace syncline::plan
