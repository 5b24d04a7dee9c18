#include "plan/generators/direct_sum.h"

#include <vector>

#include "base/assert.h"
#include "plan/canonical.h"

namespace syncline::plan {
namespace {

class DirectSum {
 public:
  DirectSum(Builder& b, LaneRef at, int chunk, MessageKey key)
      : b_(b), at_(at), chunk_(chunk), key_(key) {}

  After write_result(int n) {
    const int left = canonical_split(n);
    const Operand x = evaluate(0, left);
    const Operand y = evaluate(left, n - left);
    return combine(x, y, out(chunk_));
  }

 private:
  // Either a rank whose message has not been received yet, or a place in memory.
  struct Operand {
    int remote = -1;
    Slice slice;
    bool in_scratch() const { return remote < 0 && slice.buf == Buf::kScratch; }
  };

  Operand evaluate(int first, int count) {
    if (count == 1) return first == at_.rank ? Operand{-1, in(chunk_)} : Operand{first, {}};
    const int left = canonical_split(count);
    const Operand x = evaluate(first, left);
    const Operand y = evaluate(first + left, count - left);
    const Slice dst = x.in_scratch() ? x.slice : y.in_scratch() ? y.slice : take_slot();
    combine(x, y, dst);
    if (x.in_scratch() && y.in_scratch()) free_.push_back(y.slice.slot);
    return {-1, dst};
  }

  After combine(Operand x, Operand y, Slice dst) {
    if (x.remote >= 0 && y.remote >= 0) {
      const Slice place = dst.buf == Buf::kScratch ? dst : take_slot();  // kOut takes results only
      b_.recv(at_, place, x.remote, key_);
      x = {-1, place};
    }
    if (y.remote >= 0) return b_.recv_reduce(at_, dst, x.slice, y.remote, key_);
    if (x.remote >= 0) return b_.recv_reduce(at_, dst, y.slice, x.remote, key_);
    return b_.reduce(at_, dst, x.slice, y.slice);
  }

  Slice take_slot() {
    if (free_.empty()) free_.push_back(slots_++);
    const int slot = free_.back();
    free_.pop_back();
    return scratch(slot, chunk_);
  }

  Builder& b_;
  const LaneRef at_;
  const int chunk_;
  const MessageKey key_;
  int slots_ = 0;
  std::vector<int> free_;
};

}  // namespace

After append_direct_sum(Builder& b, LaneRef at, int n, int chunk, MessageKey key) {
  SYNCLINE_ASSERT(n >= 2, "a direct sum needs a peer");
  return DirectSum(b, at, chunk, key).write_result(n);
}

}  // namespace syncline::plan
