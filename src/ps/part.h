// Part: what a server holds of one key, a slice of a tensor or its rows of a table, with what is on
// the way in and out of it. The base knows rounds and waiting pulls; DenseSlice and TablePart know
// values.
#pragma once

#include <cstdint>
#include <vector>

#include "base/buffers.h"
#include "ps/request.h"
#include "ps/round_gate.h"
#include "ps/round_sums.h"

namespace syncline::ps {

struct Answer {
  Buffer data;
  std::size_t count = 0;  // elements; bytes of a state
  DType type = DType::kF32;
};

// A pull that waits for its clock; `ids` of a table.
struct WaitingPull {
  int worker = 0;
  Request request;
  Buffer ids;
  bool after_push = false;  // of the same worker and clock; bulk synchronous stores
  // Of a push that answers: its answer may go where the payload still comes from. 0: none.
  std::uint64_t behind_payload = 0;

  // In bulk synchronous stores: the rounds below it are what it sees.
  std::uint64_t version() const { return request.clock + (after_push ? 1 : 0); }
};

// What turns contributions into values.
struct UpdateRule {
  const optim::Optimizer* optimizer = nullptr;  // null: the value is the sum itself
  Combine combine = Combine::kSum;
  bool scale_by_age = false;
};

struct PartSizes {
  std::uint64_t value = 0, state = 0, held = 0, rows = 0;
};

// How old gradients were when they were applied, in updates since their worker's last pull.
struct Ages {
  std::uint64_t updates = 0, sum = 0, max = 0;

  void count(std::uint64_t age) {
    ++updates;
    sum += age;
    max = age > max ? age : max;
  }
};

// Which part of its store it is.
struct PartPlace {
  std::uint32_t key = 0;
  std::uint32_t slice = 0;
};

// Of a push to a slice of `count` elements; kMismatch: it is none.
Result<std::size_t> dense_push_bytes(const Request& push, DType type, std::size_t count);

// Confined.
class Part {
 public:
  Part(int workers, const Rules& rules, bool immediate)
      : gate(workers, rules, immediate), seen_(static_cast<std::size_t>(workers)) {}
  virtual ~Part() = default;

  virtual bool is_table() const = 0;
  // It may be pushed to and pulled.
  virtual bool has_value() const = 0;

  // Elements of type() that a push of this request carries. Not ok: it does not fit.
  virtual Result<std::size_t> push_bytes(const Request& push) const = 0;
  // Keeps it for its round.
  virtual void keep(Contribution contribution) = 0;
  // False: it has begun, and goes on when others have said what they know: servers of the tensor's
  // norms (dense_slice.h), of its value (relay_slice.h).
  virtual bool close(std::uint64_t clock, const UpdateRule& rule) = 0;
  virtual bool is_closing() const { return false; }
  // The value is that of `clock`: all rounds below it are in it.
  virtual bool is_of(std::uint64_t /*clock*/) const { return true; }
  // Applies it at once.
  virtual void apply(Contribution contribution, const UpdateRule& rule) = 0;
  virtual Result<Answer> answer(const WaitingPull& pull) = 0;
  // What answers a state; where an optimiser is set its slots are there, stepped or not.
  virtual Answer state(const Request& request, const UpdateRule& rule) = 0;
  // A restore of so many bytes fits.
  virtual bool takes_state(std::uint64_t bytes) const = 0;
  // kCorrupt: it is none of this part.
  virtual Status restore(std::span<const std::byte> state) = 0;
  virtual PartSizes sizes() const = 0;

  PartPlace place;
  RoundGate gate;
  std::vector<WaitingPull> waiting;
  Ages ages;

 protected:
  // The worker has the newest value now.
  void note_seen(int worker) { seen_[static_cast<std::size_t>(worker)] = ages.updates; }
  std::uint64_t age_of(int worker) const {
    return ages.updates - seen_[static_cast<std::size_t>(worker)];
  }

 private:
  std::vector<std::uint64_t> seen_;
};

}  // namespace syncline::ps
