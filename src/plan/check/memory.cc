#include "plan/check/memory.h"

#include <algorithm>

#include "plan/text.h"

namespace syncline::plan {

const char* to_text(Aliasing aliasing) {
  if (aliasing.in_is_out)
    return aliasing.acc_is_out ? "when in, out and acc are one" : "when in is out";
  return aliasing.acc_is_out ? "when acc is out" : "when in, out and acc are separate";
}

Memory::Memory(const Program& program, const Order& order, Aliasing aliasing,
               Expressions& expressions)
    : p_(program), order_(order), aliasing_(aliasing) {
  const Schedule& s = *p_.schedule;
  std::size_t size = 0;
  for (const RankProgram& rank : s.ranks) {
    rank_begin_.push_back(size);
    size += std::size_t{3} * s.chunks + rank.scratch_slots;
  }
  cells_.resize(size);
  for (int rank = 0; rank < s.size(); ++rank) {
    for (int chunk = 0; chunk < s.chunks; ++chunk) {
      if (!has_in(s, rank, chunk)) continue;
      cells_[place(rank, {Buf::kIn, static_cast<std::uint16_t>(chunk), 0})].value =
          expressions.leaf(rank, chunk);
    }
  }
}

std::size_t Memory::place(int rank, const Slice& slice) const {
  const Schedule& s = *p_.schedule;
  const std::size_t chunks = s.chunks;
  const std::size_t begin = rank_begin_[static_cast<std::size_t>(rank)];
  if (slice.buf == Buf::kScratch) return begin + 3 * chunks + slice.slot;
  const bool shares = (slice.buf == Buf::kIn && aliasing_.in_is_out) ||
                      (slice.buf == Buf::kAcc && aliasing_.acc_is_out);
  const Buf buf = shares && has_out(s, rank, slice.chunk) ? Buf::kOut : slice.buf;
  return begin + static_cast<std::size_t>(buf) * chunks + slice.chunk;
}

Status Memory::race(int i, int other, const Slice& slice) const {
  return step_error(p_.at(i), "race on " + to_text(slice) + " with " + describe(p_.at(other)) +
                                  " " + to_text(aliasing_) + ": nothing orders the two");
}

Result<Expr> Memory::read(int i, const Slice& slice) {
  Cell& cell = cells_[place(p_.at(i).rank, slice)];
  if (cell.value == kNothing) {
    return step_error(p_.at(i), "reads " + to_text(slice) + " before anything was written there, " +
                                    to_text(aliasing_));
  }
  if (cell.writer >= 0 && !order_.before(cell.writer, i)) return race(i, cell.writer, slice);
  // Of one lane only the newest read matters.
  const auto same_lane = [&](int j) { return p_.at(j).global_lane == p_.at(i).global_lane; };
  const auto old = std::find_if(cell.readers.begin(), cell.readers.end(), same_lane);
  if (old != cell.readers.end()) {
    *old = i;
  } else {
    cell.readers.push_back(i);
  }
  return cell.value;
}

Status Memory::write(int i, const Slice& slice, Expr value) {
  Cell& cell = cells_[place(p_.at(i).rank, slice)];
  if (cell.writer >= 0 && !order_.before(cell.writer, i)) return race(i, cell.writer, slice);
  for (const int reader : cell.readers) {
    if (!order_.before(reader, i)) return race(i, reader, slice);
  }
  cell.readers.clear();
  cell.writer = i;
  cell.value = value;
  return {};
}

}  // namespace syncline::plan
