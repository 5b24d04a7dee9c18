#include "plan/text.h"

namespace syncline::plan {
namespace {

std::string number(int value) { return std::to_string(value); }

const char* yes_no(bool value) { return value ? "yes" : "no"; }

}  // namespace

std::string to_text(const Slice& slice) {
  const std::string chunk = number(slice.chunk) + "]";
  switch (slice.buf) {
    case Buf::kIn:
      return "in[" + chunk;
    case Buf::kOut:
      return "out[" + chunk;
    case Buf::kAcc:
      return "acc[" + chunk;
    case Buf::kScratch:
      return "scratch[" + number(slice.slot) + ":" + chunk;
  }
  return "?[" + chunk;
}

std::string to_text(const Step& step) {
  const auto message = [&step](const char* preposition) {
    return std::string(preposition) + number(step.peer) + " tag " + number(step.tag) +
           (step.wire == Wire::kElement ? " element" : " accumulator");
  };
  std::string line;
  switch (step.kind) {
    case StepKind::kSend:
      line = "send " + to_text(step.a) + message(" to ");
      break;
    case StepKind::kRecv:
      line = "recv " + to_text(step.dst) + message(" from ");
      break;
    case StepKind::kRecvReduce:
      line = "recv_reduce " + to_text(step.dst) + " " + to_text(step.a) + message(" from ");
      break;
    case StepKind::kCopy:
      line = "copy " + to_text(step.dst) + " " + to_text(step.a);
      break;
    case StepKind::kReduce:
      line = "reduce " + to_text(step.dst) + " " + to_text(step.a) + " " + to_text(step.b);
      break;
  }
  if (step.finish) line += " finish";
  if (!step.after.empty()) line += " after";
  for (const After& after : step.after) line += " " + number(after.lane) + "." + number(after.step);
  return line;
}

std::string to_text(const Schedule& s) {
  std::string text = "syncline-schedule 1\nname " + s.name + "\nkind " + to_string(s.kind) +
                     "\nranks " + number(s.size()) + "\nchunks " + number(s.chunks) + "\nroot " +
                     number(s.root) + "\ncanonical_sum " + yes_no(s.canonical_sum) + "\n";
  for (int rank = 0; rank < s.size(); ++rank) {
    const RankProgram& program = s.ranks[static_cast<std::size_t>(rank)];
    text += "rank " + number(rank) + " contributes " + yes_no(program.contributes) + " receives " +
            yes_no(program.receives) + " scratch_slots " + number(program.scratch_slots) + "\n";
    for (const Lane& lane : program.lanes) {
      text += "lane\n";
      for (const Step& step : lane.steps) text += to_text(step) + "\n";
    }
  }
  return text + "end\n";
}

}  // namespace syncline::plan
