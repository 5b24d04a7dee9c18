#include "plan/generators/pieces.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "plan/canonical.h"

namespace syncline::plan {
namespace {

// The rank of the higher levels' root lies within, else the first one: as in generators/tree.cc.
int link_binomial(Route& route, int first, int count, int root) {
  if (count == 1) return first;
  const int left = canonical_split(count);
  int to = link_binomial(route, first, left, root);
  int from = link_binomial(route, first + left, count - left, root);
  if (from == root) std::swap(to, from);
  route.parent[static_cast<std::size_t>(from)] = to;
  int level = 0;
  while ((1 << level) < left) ++level;
  route.round[static_cast<std::size_t>(from)] = level;
  return to;
}

Route empty_route(int size, int root) {
  return {root, std::vector<int>(static_cast<std::size_t>(size), -1),
          std::vector<int>(static_cast<std::size_t>(size), 0)};
}

int modulo(int value, int size) { return ((value % size) + size) % size; }

}  // namespace

Route binomial_route(int size, int root) {
  Route route = empty_route(size, root);
  link_binomial(route, 0, size, root);
  return route;
}

Route chain_route(int size, int root, int step) {
  Route route = empty_route(size, root);
  for (int i = 0; i + 1 < size; ++i) {
    const auto member = static_cast<std::size_t>(modulo(root + step * (i + 1), size));
    route.parent[member] = modulo(root + step * (i + 2), size);
    route.round[member] = i;
  }
  return route;
}

Route chain_from(int size, int root, int step) {
  Route route = empty_route(size, root);
  for (int i = 0; i + 1 < size; ++i) {
    const auto member = static_cast<std::size_t>(modulo(root + step * (i + 1), size));
    route.parent[member] = modulo(root + step * i, size);
    route.round[member] = i;
  }
  return route;
}

Route reversed(Route route) {
  const int last = *std::max_element(route.round.begin(), route.round.end());
  for (int& round : route.round) round = last - round;
  return route;
}

Pieces::Pieces(Builder& b, int ranks, int chunks, int lanes)
    : b_(b), chunks_(chunks), lanes_(lanes), turns_(static_cast<std::size_t>(ranks), 0) {
  for (int rank = 0; rank < ranks; ++rank) {
    for (int chunk = 0; chunk < chunks; ++chunk) held_.push_back({in(chunk), -1});
  }
}

void Pieces::set_phase(int phase, int lane) {
  if (lane != lane_) slots_base_ = slots_max_;
  phase_ = phase;
  lane_ = lane;
  std::fill(turns_.begin(), turns_.end(), 0);
}

Pieces::Held& Pieces::held(int rank, int chunk) {
  return held_[static_cast<std::size_t>(rank) * static_cast<std::size_t>(chunks_) +
               static_cast<std::size_t>(chunk)];
}

int Pieces::add(Event event) {
  event.lane = 2 * lane_ + (event.kind == StepKind::kSend ? 0 : 1);
  events_.push_back(event);
  return static_cast<int>(events_.size()) - 1;
}

int Pieces::send(Time time, int from, int to, int chunk) {
  const Held& value = held(from, chunk);
  Event event{time, from, 0, StepKind::kSend, {}, value.slice, {}, to, message_key(phase_, chunk)};
  event.waits[0] = value.since;
  return add(event);
}

void Pieces::receive(Time time, int rank, int from, int chunk, StepKind kind, Slice dst) {
  const Held& value = held(rank, chunk);
  Event event{time, rank, 0, kind, dst, {}, {}, from, message_key(phase_, chunk)};
  if (kind == StepKind::kRecvReduce) {
    event.a = value.slice;
    event.waits[0] = value.since;
  }
  held(rank, chunk) = {dst, add(event)};
}

void Pieces::combine(int chunk, const std::vector<int>& members, const Route& to_root, bool last) {
  std::vector<int> order(members.size());
  std::iota(order.begin(), order.end(), 0);
  const auto round = [&](int m) { return to_root.round[static_cast<std::size_t>(m)]; };
  std::stable_sort(order.begin(), order.end(), [&](int x, int y) { return round(x) < round(y); });
  order.erase(std::find(order.begin(), order.end(), to_root.root));
  int left = 0;  // messages that the root is still to get
  for (const int m : order) {
    left += to_root.parent[static_cast<std::size_t>(m)] == to_root.root ? 1 : 0;
  }
  int turn = 0;  // keeps the order of two messages of one round to one member
  for (const int m : order) {
    const int parent = to_root.parent[static_cast<std::size_t>(m)];
    const int from = members[static_cast<std::size_t>(m)];
    const int to = members[static_cast<std::size_t>(parent)];
    const bool finishes = last && parent == to_root.root && --left == 0;
    send({phase_, round(m), chunk, 0, turn}, from, to, chunk);
    receive({phase_, round(m), chunk, 1, turn++}, to, from, chunk, StepKind::kRecvReduce,
            finishes ? out(chunk) : acc(chunk));
  }
}

void Pieces::spread(int chunk, const std::vector<int>& members, const Route& from_root) {
  std::vector<int> order(members.size());
  std::iota(order.begin(), order.end(), 0);
  const auto round = [&](int m) { return from_root.round[static_cast<std::size_t>(m)]; };
  std::stable_sort(order.begin(), order.end(), [&](int x, int y) { return round(x) < round(y); });
  for (const int m : order) {
    if (m == from_root.root) continue;
    const int from =
        members[static_cast<std::size_t>(from_root.parent[static_cast<std::size_t>(m)])];
    const int to = members[static_cast<std::size_t>(m)];
    send({phase_, round(m), chunk, 0, to}, from, to, chunk);
    receive({phase_, round(m), chunk, 1, to}, to, from, chunk, StepKind::kRecv, out(chunk));
  }
}

Slice Pieces::take_slot(int chunk) {
  if (free_slots_.empty()) free_slots_.push_back(slots_++);
  slots_max_ = std::max(slots_max_, slots_);
  const int slot = free_slots_.back();
  free_slots_.pop_back();
  return scratch(slot, chunk);
}

Pieces::Held Pieces::merge(Operand x, Operand y, Slice dst, int rank, int chunk, Time& time) {
  const auto append = [&](StepKind kind, int from, Held a, Held b) {
    ++time[3];
    Event event{time,    rank, 0,
                kind,    dst,  a.slice,
                b.slice, from, from < 0 ? 0 : message_key(phase_, chunk)};
    event.waits = {a.since, b.since, -1};
    return Held{dst, add(event)};
  };
  if (x.remote >= 0 && y.remote >= 0) {
    x = {-1, append(StepKind::kRecv, x.remote, {}, {})};
  }
  if (y.remote >= 0) return append(StepKind::kRecvReduce, y.remote, x.held, {});
  if (x.remote >= 0) return append(StepKind::kRecvReduce, x.remote, y.held, {});
  return append(StepKind::kReduce, -1, x.held, y.held);
}

Pieces::Operand Pieces::evaluate(const std::vector<int>& members, int first, int count, int rank,
                                 int chunk, Time& time) {
  if (count == 1) {
    const int member = members[static_cast<std::size_t>(first)];
    return member == rank ? Operand{-1, held(rank, chunk)} : Operand{member, {}};
  }
  const int left = canonical_split(count);
  const Operand x = evaluate(members, first, left, rank, chunk, time);
  const Operand y = evaluate(members, first + left, count - left, rank, chunk, time);
  const auto in_slot = [](const Operand& o) {
    return o.remote < 0 && o.held.slice.buf == Buf::kScratch;
  };
  const Slice dst = in_slot(x) ? x.held.slice : in_slot(y) ? y.held.slice : take_slot(chunk);
  const Held sum = merge(x, y, dst, rank, chunk, time);
  if (in_slot(x) && in_slot(y)) free_slots_.push_back(y.held.slice.slot);
  return {-1, sum};
}

void Pieces::sum_directly(const std::vector<int>& members, int rank, int chunk, Slice dst,
                          Time time, int after_send) {
  slots_ = slots_base_;
  free_slots_.clear();
  const int count = static_cast<int>(members.size());
  const int left = canonical_split(count);
  const Operand x = evaluate(members, 0, left, rank, chunk, time);
  const Operand y = evaluate(members, left, count - left, rank, chunk, time);
  held(rank, chunk) = merge(x, y, dst, rank, chunk, time);
  if (after_send >= 0) events_.back().waits[2] = after_send;
}

void Pieces::combine_directly(int chunk, const std::vector<int>& members, int root, bool last) {
  const int size = static_cast<int>(members.size());
  if (size == 1) return;
  const int to = members[static_cast<std::size_t>(root)];
  const int turn = next_turn(to);
  for (int i = 1; i < size; ++i) {
    const int from = members[static_cast<std::size_t>((root + size - i) % size)];
    send({phase_, 2 * turn, i, chunk, 0}, from, to, chunk);
  }
  sum_directly(members, to, chunk, last ? out(chunk) : acc(chunk),
               {phase_, 2 * turn + 1, chunk, 0, 0}, -1);
}

void Pieces::exchange(int chunk, const std::vector<int>& members) {
  const int size = static_cast<int>(members.size());
  if (size == 1) return;
  std::vector<int> newest(members.size());
  for (int m = 0; m < size; ++m) {
    for (int i = 1; i < size; ++i) {
      newest[static_cast<std::size_t>(m)] =
          send({phase_, 2 * chunk, i, 0, 0}, members[static_cast<std::size_t>(m)],
               members[static_cast<std::size_t>((m + i) % size)], chunk);
    }
  }
  // The result may overwrite what the sends read.
  for (int m = 0; m < size; ++m) {
    sum_directly(members, members[static_cast<std::size_t>(m)], chunk, out(chunk),
                 {phase_, 2 * chunk + 1, 0, 0, 0}, newest[static_cast<std::size_t>(m)]);
  }
}

void Pieces::spread_directly(int chunk, const std::vector<int>& members, int root) {
  const int size = static_cast<int>(members.size());
  if (size == 1) return;
  const int from = members[static_cast<std::size_t>(root)];
  const int turn = next_turn(from);
  for (int i = 1; i < size; ++i) {
    const int to = members[static_cast<std::size_t>((root + i) % size)];
    send({phase_, 2 * turn, i, chunk, 0}, from, to, chunk);
    receive({phase_, 2 * turn + 1, i, chunk, 0}, to, from, chunk, StepKind::kRecv, out(chunk));
  }
}

void Pieces::write() {
  std::vector<int> order(events_.size());
  std::iota(order.begin(), order.end(), 0);
  const auto event = [this](int i) -> const Event& { return events_[static_cast<std::size_t>(i)]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](int x, int y) { return event(x).time < event(y).time; });
  std::vector<LaneRef> lanes(turns_.size() * static_cast<std::size_t>(2 * lanes_), {-1, -1});
  std::vector<After> places(events_.size());
  const auto lane_of = [&](const Event& e) -> LaneRef& {
    return lanes[static_cast<std::size_t>(e.rank * 2 * lanes_ + e.lane)];
  };
  std::map<std::pair<int, int>, int> newest;  // by sender and receiver: the newest send
  for (const int i : order) {
    const Event& e = event(i);
    LaneRef& at = lane_of(e);
    if (at.rank < 0) at = b_.new_lane(e.rank);
    After& place = places[static_cast<std::size_t>(i)];
    if (e.kind == StepKind::kSend) place = b_.send(at, e.a, e.peer, e.key);
    if (e.kind == StepKind::kRecv) place = b_.recv(at, e.dst, e.peer, e.key);
    if (e.kind == StepKind::kRecvReduce) place = b_.recv_reduce(at, e.dst, e.a, e.peer, e.key);
    if (e.kind == StepKind::kReduce) place = b_.reduce(at, e.dst, e.a, e.b);
    std::vector<int> waits(e.waits.begin(), e.waits.end());
    if (e.kind == StepKind::kSend) {  // messages to one rank leave in the order of their tags
      const auto [it, fresh] = newest.try_emplace({e.rank, e.peer}, i);
      if (!fresh) waits.push_back(std::exchange(it->second, i));
    }
    for (const int wait : waits) {
      if (wait >= 0 && event(wait).lane != e.lane) {
        b_.wait_for(at, places[static_cast<std::size_t>(wait)]);
      }
    }
  }
}

}  // namespace syncline::plan
