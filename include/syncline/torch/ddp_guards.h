// Scopes of a DistributedDataParallel: accumulation and uneven inputs.
#ifndef SYNCLINE_TORCH_DDP_GUARDS_H_
#define SYNCLINE_TORCH_DDP_GUARDS_H_

#include <memory>

namespace syncline {

namespace torch_detail {
class Reducer;
}

// Restores the former setting when destroyed. Guards nest like scopes.
class SyncGuard {
 public:
  SyncGuard(std::shared_ptr<torch_detail::Reducer> reducer, bool sync);
  ~SyncGuard();
  SyncGuard(SyncGuard&& other) noexcept = default;
  SyncGuard& operator=(SyncGuard&&) = delete;

 private:
  std::shared_ptr<torch_detail::Reducer> reducer_;
  bool former_ = true;
};

// What a gradient is divided by once some ranks have run out of batches.
enum class JoinDivisor {
  kInitialWorldSize,  // ranks without data count as zero gradients (PyTorch's default)
  kActiveRanks,       // the mean over ranks that still have data
};

// Wrapped around a training loop whose length differs between ranks:
//   { auto join = ddp.join();
//     for (auto& batch : batches) train(batch);
//     int last = join.finish(); }
// A rank that has run out answers the others' exchanges with nothing until all are done; then the
// model of the rank that worked longest (the highest of them) is copied to all. Optimiser state is
// not: a rank that stopped early has missed steps. Works with no_sync(); other collectives of the
// loop are the caller's business.
class JoinGuard {
 public:
  JoinGuard(std::shared_ptr<torch_detail::Reducer> reducer, JoinDivisor divisor);
  // finish() unless called; an error is kept and thrown by the next forward. When an exception is
  // passing through, gives up at once: the other ranks learn of it from their next exchange.
  ~JoinGuard();
  JoinGuard(JoinGuard&& other) noexcept = default;
  JoinGuard& operator=(JoinGuard&&) = delete;

  // Blocks until every rank has finished; throws Error. Returns the rank whose model all hold now.
  int finish();

 private:
  std::shared_ptr<torch_detail::Reducer> reducer_;
  int exceptions_ = 0;
};

}  // namespace syncline

#endif  // SYNCLINE_TORCH_DDP_GUARDS_H_
