// Connector: one try to get a connection to a peer, for a link that lost one.
#pragma once

#include <memory>

#include "base/clock.h"
#include "cluster/link.h"
#include "transport/stream.h"

namespace syncline::cluster {

// Confined. Runs until it has ended or is dropped.
class Connector {
 public:
  struct Outcome {
    // Authenticated, nothing of it read; null when there is none.
    std::unique_ptr<transport::Stream> stream;
    ProbeResult verdict = ProbeResult::kNoAnswer;  // what it says about the peer
  };
  virtual ~Connector() = default;
  // Call whenever time has passed, at least every 100 ms.
  virtual void progress(Nanos now) = 0;
  virtual bool ended() const = 0;
  // Once, after ended().
  virtual Outcome take() = 0;
};

}  // namespace syncline::cluster
