// RelaySlice: a slice of a tensor at a relay. A relay is a server for the workers of one host: it
// sums what they push, gives the sums to the slice's server as one worker would, and answers pulls
// with what that says. Bulk synchronous stores only.
//
// A round: close() -> closing, its sum is on its way -> finish(), with the server's value.
// A value that a pull waits for and that no round brings, since nobody here has pushed, is fetched:
//   begin_fetch() -> fetching -> end_fetch()
// Lost, once its server could not be asked: every pull is refused from then on, since what is known
// may lack what its worker has pushed.
#pragma once

#include <map>
#include <set>

#include "ps/part.h"

namespace syncline::ps {

// Confined. Values are in the key's type, as they are answered.
class RelaySlice : public Part {
 public:
  RelaySlice(int workers, const Rules& rules, DType type, std::size_t count, Buffers& buffers)
      : Part(workers, rules, false),
        type_(type),
        count_(count),
        rounds_(workers, type, count, buffers) {}

  bool is_table() const override { return false; }
  bool has_value() const override { return true; }  // somewhere
  Result<std::size_t> push_bytes(const Request& push) const override;
  void keep(Contribution contribution) override { rounds_.keep(std::move(contribution), 0); }
  bool close(std::uint64_t clock, const UpdateRule& rule) override;
  bool is_closing() const override { return closing_; }
  bool is_of(std::uint64_t clock) const override;
  Result<Answer> answer(const WaitingPull& pull) override;
  PartSizes sizes() const override;

  // Sums of the rounds below it are on their way, or there.
  std::uint64_t sent_below() const { return closing_ ? closing_clock_ + 1 : 0; }
  // Of the round that close() has begun; once.
  std::vector<RoundSum> take_sums() { return std::exchange(sums_, {}); }
  void finish(std::uint64_t clock, Buffer value);
  // False: it is on its way already.
  bool begin_fetch(std::uint64_t clock) { return fetching_.insert(clock).second; }
  bool is_fetching(std::uint64_t clock) const { return fetching_.count(clock) > 0; }
  // Pulls of this clock get it until forget().
  void end_fetch(std::uint64_t clock, Buffer value);
  void forget(std::uint64_t clock) { fetched_.erase(clock); }
  void lose(const Status& why);
  // Not ok: why.
  const Status& lost() const { return lost_; }

  std::size_t bytes() const { return count_ * size_of(type_); }

 private:
  // Servers do these.
  void apply(Contribution, const UpdateRule&) override {}
  Answer state(const Request&, const UpdateRule&) override { return {}; }
  bool takes_state(std::uint64_t) const override { return false; }
  Status restore(std::span<const std::byte>) override { return Status(Code::kUnsupported, ""); }

  DType type_;
  std::size_t count_;
  RoundSums rounds_;
  std::vector<RoundSum> sums_;
  bool closing_ = false;
  std::uint64_t closing_clock_ = 0;
  Buffer value_;               // null: not known yet
  std::uint64_t version_ = 0;  // of value_: the rounds below it are in it
  std::set<std::uint64_t> fetching_;
  std::map<std::uint64_t, Buffer> fetched_;
  Status lost_;
};

}  // namespace syncline::ps
