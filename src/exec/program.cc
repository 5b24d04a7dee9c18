#include "exec/program.h"

#include <algorithm>
#include <atomic>
#include <map>

#include "base/assert.h"
#include "plan/partition.h"

namespace syncline::exec {
namespace {

// FNV-1a over what the ranks must agree on.
class Hash {
 public:
  template <class T>
  void add(T value) {
    for (std::size_t i = 0; i < sizeof value; ++i) {
      state_ = (state_ ^ (static_cast<std::uint64_t>(value) >> (8 * i) & 0xff)) * 0x100000001b3u;
    }
  }
  std::uint8_t fold() const {
    std::uint64_t folded = state_ ^ state_ >> 32;
    folded ^= folded >> 16;
    return static_cast<std::uint8_t>(folded ^ folded >> 8);
  }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325u;
};

std::uint8_t hash_of(const plan::Schedule& schedule) {
  Hash hash;
  hash.add(static_cast<std::uint8_t>(schedule.kind));
  hash.add(schedule.chunks);
  for (const char c : schedule.name) hash.add(static_cast<std::uint8_t>(c));
  for (const auto& rank : schedule.ranks) {
    for (const auto& lane : rank.lanes) {
      hash.add(static_cast<std::uint32_t>(lane.steps.size()));
      for (const auto& step : lane.steps) {
        hash.add(static_cast<std::uint8_t>(step.kind));
        hash.add(step.peer);
        hash.add(step.dst.chunk);
      }
    }
  }
  return hash.fold();
}

bool sends_accumulators(const plan::Schedule& schedule) {
  for (const auto& rank : schedule.ranks) {
    for (const auto& lane : rank.lanes) {
      for (const auto& step : lane.steps) {
        if (step.kind == plan::StepKind::kSend && step.wire == plan::Wire::kAccumulator)
          return true;
      }
    }
  }
  return false;
}

class Compiler {
 public:
  Compiler(const plan::Schedule& schedule, int rank)
      : source_(schedule.ranks[static_cast<std::size_t>(rank)]) {
    program_.name = schedule.name;
    program_.kind = schedule.kind;
    program_.rank = rank;
    program_.size = schedule.size();
    program_.chunks = schedule.chunks;
    program_.blocks = static_cast<std::uint32_t>(plan::block_count(schedule.kind, schedule.size()));
    program_.receives = source_.receives;
    program_.scratch_slots = source_.scratch_slots;
    program_.hash = hash_of(schedule);
    program_.accumulator_on_wire = sends_accumulators(schedule);
  }

  Program run() {
    for (const auto& lane : source_.lanes) {
      const auto begin = static_cast<std::uint32_t>(program_.steps.size());
      for (const auto& step : lane.steps) add_step(step);
      program_.lanes.push_back({begin, static_cast<std::uint32_t>(program_.steps.size())});
    }
    program_.accumulators = static_cast<std::uint16_t>(accumulators_.size());
    make_distinct(program_.send_peers);
    make_distinct(program_.recv_peers);
    return std::move(program_);
  }

 private:
  Place place_of(const plan::Slice& slice) {
    Place place{slice.buf, slice.chunk, slice.slot};
    if (slice.buf == plan::Buf::kAcc) {
      const auto next = static_cast<std::uint16_t>(accumulators_.size());
      place.slot = accumulators_.try_emplace(slice.chunk, next).first->second;
    }
    return place;
  }

  void add_step(const plan::Step& step) {
    using plan::StepKind;
    CompiledStep out;
    out.kind = step.kind;
    out.wire = step.wire;
    out.finish = step.finish;
    out.peer = step.peer;
    out.tag = step.tag;
    out.after_begin = static_cast<std::uint16_t>(program_.after.size());
    program_.after.insert(program_.after.end(), step.after.begin(), step.after.end());
    out.after_end = static_cast<std::uint16_t>(program_.after.size());
    if (step.kind != StepKind::kSend) out.dst = place_of(step.dst);
    if (step.kind != StepKind::kRecv) out.a = place_of(step.a);
    if (step.kind == StepKind::kReduce) out.b = place_of(step.b);
    if (step.kind == StepKind::kSend) program_.send_peers.push_back(step.peer);
    if (step.kind == StepKind::kRecv || step.kind == StepKind::kRecvReduce) {
      program_.recv_peers.push_back(step.peer);
    }
    program_.steps.push_back(out);
  }

  static void make_distinct(std::vector<int>& peers) {
    std::sort(peers.begin(), peers.end());
    peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  }

  const plan::RankProgram& source_;
  Program program_;
  std::map<std::uint16_t, std::uint16_t> accumulators_;
};

}  // namespace

std::shared_ptr<const Program> compile(const plan::Schedule& schedule, int rank) {
  SYNCLINE_ASSERT(rank >= 0 && rank < schedule.size(), "rank of the schedule");
  static std::atomic<std::uint64_t> serials{0};
  auto program = std::make_shared<Program>(Compiler(schedule, rank).run());
  program->serial = ++serials;
  return program;
}

}  // namespace syncline::exec
