#include "plan/check/program.h"

#include <map>
#include <tuple>
#include <utility>

#include "plan/check/form.h"
#include "plan/partition.h"
#include "plan/text.h"

namespace syncline::plan {
namespace {

Program lay_out(const Schedule& s) {
  Program p;
  p.schedule = &s;
  for (int rank = 0; rank < s.size(); ++rank) {
    p.rank_lane.push_back(static_cast<int>(p.lane_begin.size()));
    int lane_number = 0;
    for (const Lane& lane : s.ranks[static_cast<std::size_t>(rank)].lanes) {
      const int global = static_cast<int>(p.lane_begin.size());
      p.lane_begin.push_back(p.size());
      int index = 0;
      for (const Step& step : lane.steps)
        p.steps.push_back({&step, rank, lane_number, index++, global});
      ++lane_number;
    }
  }
  p.rank_lane.push_back(static_cast<int>(p.lane_begin.size()));
  p.lane_begin.push_back(p.size());
  return p;
}

Status check_after(const Program& p, const FlatStep& at) {
  const auto& lanes = p.schedule->ranks[static_cast<std::size_t>(at.rank)].lanes;
  for (const After& after : at.step->after) {
    if (after.lane >= lanes.size() || after.step >= lanes[after.lane].steps.size()) {
      return step_error(at, "waits for step " + std::to_string(after.step) + " of lane " +
                                std::to_string(after.lane) + ", which does not exist");
    }
  }
  return {};
}

Status check_pair(const FlatStep& send, const FlatStep& receive) {
  const std::string other = ", sent by " + describe(send);
  if (receive.step->wire != send.step->wire) {
    return step_error(receive, "wire type differs from that of the message" + other);
  }
  if (receive.step->dst.chunk != send.step->a.chunk) {
    return step_error(receive, "takes chunk " + std::to_string(receive.step->dst.chunk) +
                                   " from chunk " + std::to_string(send.step->a.chunk) + other);
  }
  return {};
}

Status pair_messages(Program& p) {
  std::map<std::pair<int, int>, int> next_tag;
  std::map<std::tuple<int, int, int>, int> sends;  // source, destination, tag
  for (int i = 0; i < p.size(); ++i) {
    const FlatStep& at = p.at(i);
    if (at.step->kind != StepKind::kSend) continue;
    const int tag = next_tag[{at.rank, at.step->peer}]++;
    if (at.step->tag != tag) {
      return step_error(at, "tag must be " + std::to_string(tag) +
                                ": messages to one peer count in program order");
    }
    sends[{at.rank, at.step->peer, tag}] = i;
  }
  for (int i = 0; i < p.size(); ++i) {
    FlatStep& at = p.steps[static_cast<std::size_t>(i)];
    if (at.step->kind != StepKind::kRecv && at.step->kind != StepKind::kRecvReduce) continue;
    const auto it = sends.find({at.step->peer, at.rank, at.step->tag});
    if (it == sends.end()) return step_error(at, "nobody sends this message");
    FlatStep& send = p.steps[static_cast<std::size_t>(it->second)];
    if (send.partner >= 0) {
      return step_error(at, "the message was received before, by " + describe(p.at(send.partner)));
    }
    send.partner = i;
    at.partner = it->second;
    if (Status status = check_pair(send, at); !status.ok()) return status;
  }
  for (const auto& [key, i] : sends) {
    if (p.at(i).partner < 0) return step_error(p.at(i), "nobody receives this message");
  }
  return {};
}

}  // namespace

std::string describe(const FlatStep& at) {
  return "rank " + std::to_string(at.rank) + ", lane " + std::to_string(at.lane) + ", step " +
         std::to_string(at.index) + " (" + to_text(*at.step) + ")";
}

Status step_error(const FlatStep& at, const std::string& what) {
  return Status(Code::kInvalidArgument, "schedule: " + describe(at) + ": " + what);
}

bool has_in(const Schedule& s, int rank, int chunk) {
  if (!s.ranks[static_cast<std::size_t>(rank)].contributes) return false;
  const bool own_only = s.kind == Collective::kAllGather || s.kind == Collective::kGather ||
                        s.kind == Collective::kAllToAll;
  return !own_only || block_owner(s.kind, s.size(), s.chunks, chunk) == rank;
}

bool has_out(const Schedule& s, int rank, int chunk) {
  const RankProgram& program = s.ranks[static_cast<std::size_t>(rank)];
  if (s.kind == Collective::kAllReduce && !program.contributes) return true;
  if (!program.receives || s.kind == Collective::kBarrier) return false;
  if (s.kind == Collective::kBroadcast) return rank != s.root;
  const int only = chunk_receiver(s.kind, s.size(), s.root, s.chunks, chunk);
  return only < 0 || only == rank;
}

Result<Program> flatten(const Schedule& schedule) {
  if (Status status = check_head(schedule); !status.ok()) return status;
  Program p = lay_out(schedule);
  for (const FlatStep& at : p.steps) {
    if (Status status = check_form(schedule, at); !status.ok()) return status;
    if (Status status = check_after(p, at); !status.ok()) return status;
  }
  if (Status status = pair_messages(p); !status.ok()) return status;
  return p;
}

}  // namespace syncline::plan
