// Communicator: a group of ranks that can run collectives.
#ifndef SYNCLINE_COMMUNICATOR_H_
#define SYNCLINE_COMMUNICATOR_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "syncline/tensor_view.h"
#include "syncline/work.h"

namespace syncline {

// Options of one call; all optional.
struct CallOptions {
  std::string name;      // shown in messages and traces; ranks must agree on it
  std::string schedule;  // "" = the planner's choice, else a name of docs/schedules.md such as
                         // "ring" or "hierarchical:two_shot/ring"; ranks must agree on it
  double weight = -1.0;  // kAverage only: this rank's weight (>= 0); all ranks give one or none
                         // does. Result: sum(weight * x) / sum(weight); all weights 0 gives 0.
  // Of a reduction: the canonical sum, the same bits by every schedule, transport, segment size and
  // cut into calls at one group size (docs/numerics.md). Unset: the session's. Ranks must agree on
  // it; a schedule that sums in another order is kInvalidArgument.
  std::optional<bool> reproducible = std::nullopt;
  bool background = false;               // hint: the caller goes on computing before it waits
  std::chrono::milliseconds timeout{0};  // 0 = the session's
};

// What the planner chose for one (collective, type, count).
struct PlanInfo {
  std::string schedule;   // "two_shot"
  std::string transport;  // "shm", "tcp", "shm+tcp", "inproc", "none"
  std::size_t segment_bytes = 0;
  double predicted_us = 0;
  std::string reason;  // one line: the candidates and their predicted times
};

// Immutable and thread-safe; copies share the group. It dies with the first lost peer: its running
// operations end with the cause, later calls give kFailedPrecondition.
//
// All ranks of the group call the same collectives in the same order; ranks that disagree on kind,
// type, count, operation, root, schedule, name or `reproducible` get kMismatch that shows both
// sides. In-place calls are not retryable after a failure; out-of-place inputs stay intact. Bad
// arguments throw Error before any byte is sent. Tensors on other devices than the CPU throw
// kUnsupported.
class Communicator {
 public:
  Communicator() = default;  // empty: only valid() may be called

  bool valid() const { return impl_ != nullptr; }
  int rank() const;  // 0 .. size()-1
  int size() const;

  // Every rank ends with the reduction of all contributions. `in` and `out`: same type and count;
  // they may be the same memory, but must not overlap partly.
  Work all_reduce(TensorView inout, ReduceOp op = ReduceOp::kSum, const CallOptions& options = {});
  Work all_reduce(ConstTensorView in, TensorView out, ReduceOp op = ReduceOp::kSum,
                  const CallOptions& options = {});
  // Rank r ends with block r of the reduction. in.count() == size() * out.count(). `out` may be
  // block rank() of `in`.
  Work reduce_scatter(ConstTensorView in, TensorView out, ReduceOp op = ReduceOp::kSum,
                      const CallOptions& options = {});
  // Every rank ends with all contributions in rank order. out.count() == size() * in.count(). `in`
  // may be block rank() of `out`.
  Work all_gather(ConstTensorView in, TensorView out, const CallOptions& options = {});
  // Every rank ends with root's tensor.
  Work broadcast(TensorView inout, int root, const CallOptions& options = {});
  // Root ends with the reduction. Other ranks' memory keeps its content bit for bit.
  Work reduce(TensorView inout, int root, ReduceOp op = ReduceOp::kSum,
              const CallOptions& options = {});
  Work reduce(ConstTensorView in, TensorView out, int root, ReduceOp op = ReduceOp::kSum,
              const CallOptions& options = {});
  // Completes on no rank before every rank has called it.
  Work barrier(const CallOptions& options = {});

  // Collective: every rank calls it and blocks. Ranks of one colour form a group, ordered by (key,
  // rank here); a negative colour gives an empty Communicator.
  Communicator split(int color, int key = 0) const;

  // The plan that a call with these arguments would use; of the options, `schedule` and
  // `reproducible` matter. `count`: elements of the whole vector.
  PlanInfo plan(Collective kind, DType type, std::size_t count,
                const CallOptions& options = {}) const;

  // Ok while usable, else why not.
  Status status() const;

  class Impl;
  explicit Communicator(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace syncline

#endif  // SYNCLINE_COMMUNICATOR_H_
