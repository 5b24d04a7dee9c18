#include "plan/builder.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/assert.h"
#include "plan/partition.h"

namespace syncline::plan {
namespace {

Wire wire_of(Buf source) {
  return source == Buf::kIn || source == Buf::kOut ? Wire::kElement : Wire::kAccumulator;
}

Step message(StepKind kind, int peer) {
  Step step;
  step.kind = kind;
  step.peer = static_cast<std::int16_t>(peer);
  return step;
}

}  // namespace

Builder::Builder(std::string name, Collective kind, int ranks, int chunks, int root) {
  schedule_.name = std::move(name);
  schedule_.kind = kind;
  schedule_.chunks = static_cast<std::uint16_t>(chunks);
  const bool root_gets = kind == Collective::kReduce || kind == Collective::kGather;
  const bool root_gives = kind == Collective::kBroadcast || kind == Collective::kScatter;
  schedule_.root = static_cast<std::int16_t>(is_rooted(kind) ? root : 0);
  schedule_.ranks.resize(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    RankProgram& program = schedule_.ranks[static_cast<std::size_t>(rank)];
    program.contributes = !root_gives || rank == root;
    program.receives = !root_gets || rank == root;
  }
}

void Builder::make_helper(int rank) {
  RankProgram& program = schedule_.ranks[static_cast<std::size_t>(rank)];
  program.contributes = program.receives = false;
}

LaneRef Builder::new_lane(int rank) {
  auto& lanes = schedule_.ranks[static_cast<std::size_t>(rank)].lanes;
  lanes.emplace_back();
  return {rank, static_cast<int>(lanes.size()) - 1};
}

After Builder::append(LaneRef at, Step step) {
  auto& steps = schedule_.ranks[static_cast<std::size_t>(at.rank)]
                    .lanes[static_cast<std::size_t>(at.lane)]
                    .steps;
  SYNCLINE_ASSERT(steps.size() < 0xffff, "a lane holds at most 65535 steps");
  const bool writes_result = step.kind != StepKind::kSend && step.kind != StepKind::kRecv;
  step.finish = writes_result && step.dst.buf == Buf::kOut && is_reduction(schedule_.kind);
  for (const Slice& s : {step.dst, step.a, step.b}) {
    if (s.buf == Buf::kScratch) need_slots(at.rank, s.slot + 1);
  }
  steps.push_back(std::move(step));
  return {static_cast<std::uint16_t>(at.lane), static_cast<std::uint16_t>(steps.size() - 1)};
}

After Builder::send(LaneRef at, Slice a, int to, MessageKey key) {
  Step step = message(StepKind::kSend, to);
  step.a = a;
  step.wire = wire_of(a.buf);
  const After place = append(at, std::move(step));
  messages_.push_back({at.rank, at.lane, place.step, key});
  return place;
}

After Builder::recv(LaneRef at, Slice dst, int from, MessageKey key) {
  Step step = message(StepKind::kRecv, from);
  step.dst = dst;
  const After place = append(at, std::move(step));
  messages_.push_back({at.rank, at.lane, place.step, key});
  return place;
}

After Builder::recv_reduce(LaneRef at, Slice dst, Slice a, int from, MessageKey key) {
  Step step = message(StepKind::kRecvReduce, from);
  step.dst = dst;
  step.a = a;
  const After place = append(at, std::move(step));
  messages_.push_back({at.rank, at.lane, place.step, key});
  return place;
}

After Builder::copy(LaneRef at, Slice dst, Slice a) {
  Step step = message(StepKind::kCopy, -1);
  step.dst = dst;
  step.a = a;
  return append(at, std::move(step));
}

After Builder::reduce(LaneRef at, Slice dst, Slice a, Slice b) {
  Step step = message(StepKind::kReduce, -1);
  step.dst = dst;
  step.a = a;
  step.b = b;
  return append(at, std::move(step));
}

void Builder::wait_for(LaneRef at, After earlier) {
  auto& lane =
      schedule_.ranks[static_cast<std::size_t>(at.rank)].lanes[static_cast<std::size_t>(at.lane)];
  lane.steps.back().after.push_back(earlier);
}

void Builder::need_slots(int rank, int slots) {
  auto& have = schedule_.ranks[static_cast<std::size_t>(rank)].scratch_slots;
  have = std::max(have, static_cast<std::uint16_t>(slots));
}

Step& Builder::step_at(const Pending& p) {
  return schedule_.ranks[static_cast<std::size_t>(p.rank)]
      .lanes[static_cast<std::size_t>(p.lane)]
      .steps[static_cast<std::size_t>(p.step)];
}

Schedule Builder::build(bool canonical_sum) {
  std::sort(messages_.begin(), messages_.end(), [](const Pending& x, const Pending& y) {
    return std::tie(x.rank, x.lane, x.step) < std::tie(y.rank, y.lane, y.step);
  });
  struct Sent {
    std::uint16_t tag;
    Wire wire;
  };
  std::map<std::tuple<int, int, MessageKey>, Sent> sent;  // source, destination, key
  std::map<std::pair<int, int>, std::uint16_t> next_tag;
  for (const Pending& p : messages_) {
    Step& step = step_at(p);
    if (step.kind != StepKind::kSend) continue;
    step.tag = next_tag[{p.rank, step.peer}]++;
    const bool fresh =
        sent.emplace(std::tuple(p.rank, int{step.peer}, p.key), Sent{step.tag, step.wire}).second;
    SYNCLINE_ASSERT(fresh, "two messages between one pair of ranks share a key");
  }
  for (const Pending& p : messages_) {
    Step& step = step_at(p);
    if (step.kind == StepKind::kSend) continue;
    const auto it = sent.find({int{step.peer}, p.rank, p.key});
    SYNCLINE_ASSERT(it != sent.end(), "a receive without matching send");
    step.tag = it->second.tag;
    step.wire = it->second.wire;
    sent.erase(it);
  }
  SYNCLINE_ASSERT(sent.empty(), "a send without matching receive");
  schedule_.canonical_sum = canonical_sum && is_reduction(schedule_.kind);
  messages_.clear();
  return std::move(schedule_);
}

Schedule make_solo(std::string name, Collective kind) {
  Builder b(std::move(name), kind, 1, 1);
  if (is_reduction(kind) || has_blocks(kind)) b.copy(b.new_lane(0), out(0), in(0));
  return b.build(true);
}

}  // namespace syncline::plan
