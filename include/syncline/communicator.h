// Communicator: a group of ranks that can run collectives.
#ifndef SYNCLINE_COMMUNICATOR_H_
#define SYNCLINE_COMMUNICATOR_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "syncline/tensor_view.h"
#include "syncline/work.h"

namespace syncline {

// Options of one call; all optional.
struct CallOptions {
  std::string name;      // shown in messages and traces; ranks must agree on it
  std::string schedule;  // "" = the planner's choice, else a name of docs/schedules.md such as
                         // "ring" or "hierarchical:two_shot/ring"; ranks must agree on it.
                         // "" in a _v form: "one_shot"
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
  // Root ends with all contributions in rank order: there out.count() == size() * in.count(), and
  // `in` may be block rank() of `out`. Other ranks' `out` is ignored.
  Work gather(ConstTensorView in, TensorView out, int root, const CallOptions& options = {});
  // Rank r ends with block r of root's tensor: there in.count() == size() * out.count(), and `out`
  // may be block rank() of `in`. Other ranks' `in` is ignored.
  Work scatter(ConstTensorView in, TensorView out, int root, const CallOptions& options = {});
  // Block d of rank s becomes block s of rank d. Both tensors have size() equal blocks and do not
  // overlap; at most 255 ranks.
  Work all_to_all(ConstTensorView in, TensorView out, const CallOptions& options = {});
  // Completes on no rank before every rank has called it.
  Work barrier(const CallOptions& options = {});

  // Blocks of unequal length; `counts[r]`: elements of rank r's block, 0 is fine. Blocks lie one
  // behind the other in rank order and fill their tensor exactly. Both ends of each block must
  // agree on its count, else kMismatch shows both.
  //
  // Every rank gives the same counts.
  Work all_gather_v(ConstTensorView in, TensorView out, const std::vector<std::size_t>& counts,
                    const CallOptions& options = {});
  Work reduce_scatter_v(ConstTensorView in, TensorView out, const std::vector<std::size_t>& counts,
                        ReduceOp op = ReduceOp::kSum, const CallOptions& options = {});
  // Only root gives counts (and its `out` or `in`); the others' own tensor says theirs.
  Work gather_v(ConstTensorView in, TensorView out, const std::vector<std::size_t>& counts,
                int root, const CallOptions& options = {});
  Work scatter_v(ConstTensorView in, TensorView out, const std::vector<std::size_t>& counts,
                 int root, const CallOptions& options = {});
  // in_counts[d] elements go to rank d, out_counts[s] come from rank s.
  Work all_to_all_v(ConstTensorView in, TensorView out, const std::vector<std::size_t>& in_counts,
                    const std::vector<std::size_t>& out_counts, const CallOptions& options = {});

  // One rank to another, or to itself; other ranks take no part, and collectives keep their order.
  // MPI's rules: a receive takes the oldest message that fits its source (kAnySource: any) and tag
  // (kAnyTag: any), messages of one sender to one receiver do not overtake each other. Tags are 0
  // or more. `out` may be longer than the message; a message that is longer, or of another type,
  // ends the receive with kMismatch that shows both sides, and a sender that still waits too.
  //
  // A send of up to 32 KiB completes at once while the receiver holds less than 256 KiB of this
  // rank's messages that nobody has asked for; else when the receive has taken it. Both end with
  // kTimeout at their deadline and with kPeerLost when the peer is gone; the communicator lives on
  // after the first.
  Work send(ConstTensorView in, int destination, int tag = 0, const CallOptions& options = {});
  ReceiveWork recv(TensorView out, int source, int tag = kAnyTag, const CallOptions& options = {});

  // Collective: every rank calls it and blocks. Ranks of one colour form a group, ordered by (key,
  // rank here); a negative colour gives an empty Communicator. Groups can be split again. One
  // thread of a process may be in split() at a time, else kFailedPrecondition.
  Communicator split(int color, int key = 0) const;

  // The plan that a call with these arguments would use; of the options, `schedule` and
  // `reproducible` matter. `count`: elements of the larger tensor.
  PlanInfo plan(Collective kind, DType type, std::size_t count,
                const CallOptions& options = {}) const;

  // Ok while usable, else why not.
  Status status() const;

  class Impl;
  explicit Communicator(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

 private:
  friend class Batch;
  std::shared_ptr<Impl> impl_;
};

}  // namespace syncline

#endif  // SYNCLINE_COMMUNICATOR_H_
