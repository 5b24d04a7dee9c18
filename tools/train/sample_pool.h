// SamplePool: one pool of samples for all workers; whoever is done takes the next batch, so that a
// slow worker takes fewer.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <thread>

#include "base/mutex.h"
#include "syncline/communicator.h"

namespace syncline::tools {

// Rank 0 hands out places of the epoch's order: to itself directly, to the others from a thread of
// its own. Each rank calls next() from one thread; ranks may be in different epochs.
class SamplePool {
 public:
  // Collective. `samples` of an epoch.
  SamplePool(Communicator& world, std::uint64_t samples);
  // Tells rank 0 that this rank takes no more; on rank 0 waits until all ranks have.
  ~SamplePool();
  SamplePool(const SamplePool&) = delete;
  SamplePool& operator=(const SamplePool&) = delete;

  struct Share {
    std::uint64_t begin = 0, count = 0;  // in the epoch's order
  };
  // At most `batch` samples; nothing at the end of the epoch. Blocks for a round trip; throws
  // Error.
  std::optional<Share> next(std::uint64_t epoch, std::uint64_t batch);

 private:
  void serve();
  Share take(std::uint64_t epoch, std::uint64_t batch);

  Communicator group_;
  const std::uint64_t samples_;
  Mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> taken_ SYNCLINE_GUARDED_BY(mutex_);  // by epoch; rank 0
  std::thread server_;
};

}  // namespace syncline::tools
