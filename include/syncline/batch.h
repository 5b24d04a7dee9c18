// Batch: calls that start as one and end as one Work.
#ifndef SYNCLINE_BATCH_H_
#define SYNCLINE_BATCH_H_

#include <memory>

#include "syncline/communicator.h"

namespace syncline {

// Externally synchronised. As PyTorch's batch_isend_irecv or a group of NCCL:
//
//   Batch batch;
//   Communicator ring = batch.on(world);
//   ring.send(mine, next);
//   ring.recv(theirs, previous);
//   batch.start().wait();
//
// Sends and receives may stand in any order, with collectives between them and on several
// communicators of one session. The collectives of one communicator keep the order of their calls,
// which is the same on all ranks, as ever; where they lie between sends and receives does not
// matter.
class Batch {
 public:
  Batch();
  // Calls that were not started end with kCancelled.
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  // The same group for this batch: its calls check their arguments at once (and throw Error before
  // anything was sent) and begin with start(); all but split() can be called. Their own Works tell
  // how each ended; to wait for one before start() throws kFailedPrecondition.
  Communicator on(const Communicator& group);

  // Starts all calls made since the last start(). Never blocks. The Work ends when all have ended,
  // with the first failure.
  Work start();

  class Impl;

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace syncline

#endif  // SYNCLINE_BATCH_H_
