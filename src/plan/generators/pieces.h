// Pieces: writes schedules chunk by chunk, for generators whose chunks go ways of their own.
// Confined to the call of a generator.
//
// Each call says what happens to one chunk: a group of ranks combines it at its root, or the root
// spreads it. The steps are collected with a time (phase, round, chunk) and written in the order of
// time: each rank has for every lane one list of sends and one of receives. A receive is later than
// its send, a step later than those whose values it uses, and a later message of a pair of ranks
// later than the receive of the one before; so all waiting goes back in time and cannot close a
// circle, however little room a channel has. (The checker proves it again.)
#pragma once

#include <array>
#include <vector>

#include "plan/builder.h"

namespace syncline::plan {

// How a chunk travels between the members of a group, numbered 0 .. size-1: along the edges to the
// root or, for spreading, from it. `round[m]`: when the edge between m and its parent is used;
// combining, a member's round is later than those of its children, spreading, earlier.
struct Route {
  int root = 0;
  std::vector<int> parent;  // -1: the root
  std::vector<int> round;   // of the root: unused
};

// Aligned binomial tree: combining along it gives the canonical sum, whatever the root.
Route binomial_route(int size, int root);
// Around a ring in steps of +1 or -1, ending at the root.
Route chain_route(int size, int root, int step);
// Away from the root around a ring.
Route chain_from(int size, int root, int step);
// The same edges the other way round in time.
Route reversed(Route route);

class Pieces {
 public:
  // `lanes`: pairs of a send and a receive lane for each rank.
  Pieces(Builder& b, int ranks, int chunks, int lanes);

  // Which pair of lanes and which time the next calls are in. A phase is later than those before.
  void set_phase(int phase, int lane);

  // The members' values of the chunk are combined along the route; `last` writes the result.
  void combine(int chunk, const std::vector<int>& members, const Route& to_root, bool last);
  // All send to the root, which adds in canonical order.
  void combine_directly(int chunk, const std::vector<int>& members, int root, bool last);
  // All send to all, and each writes the result, added in canonical order.
  void exchange(int chunk, const std::vector<int>& members);
  // The root's value goes to all other members' kOut.
  void spread(int chunk, const std::vector<int>& members, const Route& from_root);
  void spread_directly(int chunk, const std::vector<int>& members, int root);

  // Appends everything to the builder.
  void write();

 private:
  using Time = std::array<int, 5>;  // phase, then what suits the call
  struct Event {
    Time time;
    int rank = 0;
    int lane = 0;
    StepKind kind = StepKind::kSend;
    Slice dst, a, b;
    int peer = -1;
    MessageKey key = 0;
    std::array<int, 3> waits = {-1, -1, -1};  // events of the same rank
  };
  // The newest value of a chunk at a rank, and the event that made it (-1: given).
  struct Held {
    Slice slice;
    int since = -1;
  };
  struct Operand {
    int remote = -1;  // a member whose message has not been received yet
    Held held;
  };

  Held& held(int rank, int chunk);
  int add(Event event);
  int send(Time time, int from, int to, int chunk);
  void receive(Time time, int rank, int from, int chunk, StepKind kind, Slice dst);
  Operand evaluate(const std::vector<int>& members, int first, int count, int rank, int chunk,
                   Time& time);
  Held merge(Operand x, Operand y, Slice dst, int rank, int chunk, Time& time);
  void sum_directly(const std::vector<int>& members, int rank, int chunk, Slice dst, Time time,
                    int after_send);
  int next_turn(int rank) { return turns_[static_cast<std::size_t>(rank)]++; }
  Slice take_slot(int chunk);

  Builder& b_;
  const int chunks_;
  const int lanes_;
  int phase_ = 0;
  int lane_ = 0;
  std::vector<Held> held_;
  std::vector<Event> events_;
  // By rank: of how many chunks it was the root in this phase. Between two ranks at most one
  // message belongs to each turn.
  std::vector<int> turns_;
  int slots_ = 0;       // taken by the sum being written and by lanes before
  int slots_max_ = 0;   // of all so far
  int slots_base_ = 0;  // lanes run at the same time: each has slots of its own
  std::vector<int> free_slots_;
};

}  // namespace syncline::plan
