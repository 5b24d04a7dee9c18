// Builder: how generators write schedules. Confined to the call of a generator.
//
// Every rank's program is written on its own. A message is named by a key that is unique among
// those from one rank to another; build() pairs sends and receives by it, numbers the tags densely
// in the sender's program order and copies the sender's wire type to the receiver. A key without
// partner is a bug of the generator and aborts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/schedule.h"

namespace syncline::plan {

using MessageKey = std::uint32_t;
constexpr MessageKey message_key(int phase, int chunk) {
  return static_cast<MessageKey>(phase) << 16 | static_cast<MessageKey>(chunk);
}

struct LaneRef {
  int rank = 0;
  int lane = 0;
};

constexpr Slice in(int chunk) { return {Buf::kIn, static_cast<std::uint16_t>(chunk), 0}; }
constexpr Slice out(int chunk) { return {Buf::kOut, static_cast<std::uint16_t>(chunk), 0}; }
constexpr Slice acc(int chunk) { return {Buf::kAcc, static_cast<std::uint16_t>(chunk), 0}; }
constexpr Slice scratch(int slot, int chunk) {
  return {Buf::kScratch, static_cast<std::uint16_t>(chunk), static_cast<std::uint16_t>(slot)};
}

class Builder {
 public:
  // All ranks contribute and receive, except where the kind says otherwise (reduce, gather: only
  // the root receives; broadcast, scatter: only the root contributes). Other kinds ignore `root`.
  Builder(std::string name, Collective kind, int ranks, int chunks, int root = 0);

  // The rank of an all-reduce gives and receives nothing: it sums for others.
  void make_helper(int rank);

  LaneRef new_lane(int rank);

  // Each appends one step and returns its place for use in `after`. A step other than recv that
  // writes kOut in a reduction finishes it.
  After send(LaneRef at, Slice a, int to, MessageKey key);
  After recv(LaneRef at, Slice dst, int from, MessageKey key);
  After recv_reduce(LaneRef at, Slice dst, Slice a, int from, MessageKey key);
  After copy(LaneRef at, Slice dst, Slice a);
  After reduce(LaneRef at, Slice dst, Slice a, Slice b);

  // Makes the newest step of the lane wait for another one of the same rank.
  void wait_for(LaneRef at, After earlier);

  // Raises the rank's number of scratch slots.
  void need_slots(int rank, int slots);

  Schedule build(bool canonical_sum);

 private:
  struct Pending {
    int rank = 0, lane = 0, step = 0;
    MessageKey key = 0;
  };

  After append(LaneRef at, Step step);
  Step& step_at(const Pending& p);

  Schedule schedule_;
  std::vector<Pending> messages_;
};

// World of one: a copy where input and output are two buffers, else nothing.
Schedule make_solo(std::string name, Collective kind);

}  // namespace syncline::plan
