// Program: one rank's part of a schedule, compiled for the executor. Immutable; shared by
// operations of any size.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plan/schedule.h"

namespace syncline::exec {

// Where a slice lives, resolved as far as the schedule alone allows.
struct Place {
  plan::Buf buf = plan::Buf::kIn;
  std::uint16_t chunk = 0;
  std::uint16_t slot = 0;  // kScratch: the slot; kAcc: index of the chunk's private accumulator
};

struct CompiledStep {
  plan::StepKind kind{};
  plan::Wire wire{};
  bool finish = false;
  std::int16_t peer = -1;
  std::uint16_t tag = 0;
  std::uint16_t after_begin = 0;  // into Program::after
  std::uint16_t after_end = 0;
  Place dst, a, b;
};

struct CompiledLane {
  std::uint32_t begin = 0;  // into Program::steps
  std::uint32_t end = 0;
};

struct Program {
  std::uint64_t serial = 0;  // from 1; no other program of this process has it
  std::string name;
  Collective kind{};
  int rank = 0;
  int size = 1;
  std::uint32_t chunks = 1;
  std::uint32_t blocks = 1;  // plan::block_count()
  std::uint8_t hash = 0;     // of the whole schedule: ranks compare it
  bool receives = true;
  bool accumulator_on_wire = false;  // some rank sends partial results
  std::uint16_t scratch_slots = 0;
  std::uint16_t accumulators = 0;  // distinct kAcc chunks of this rank
  std::vector<CompiledStep> steps;
  std::vector<CompiledLane> lanes;
  std::vector<plan::After> after;
  std::vector<int> send_peers;  // ascending, distinct
  std::vector<int> recv_peers;
};

// The schedule must have passed plan::check.
std::shared_ptr<const Program> compile(const plan::Schedule& schedule, int rank);

}  // namespace syncline::exec
