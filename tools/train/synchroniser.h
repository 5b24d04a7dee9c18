// Synchroniser: how the trainer keeps the workers' models in step, by DistributedDataParallel and
// an optimiser of its own or through a key-value store.
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <vector>

#include "syncline/session.h"
#include "tools/train/models.h"
#include "tools/train/options.h"
#include "tools/train/report.h"

namespace syncline::tools {

// Externally synchronised.
class Synchroniser {
 public:
  virtual ~Synchroniser() = default;

  // One forward and backward of a step; the last of a step lets gradients travel.
  virtual void begin_backward(bool last, double samples) = 0;
  virtual torch::Tensor forward(torch::Tensor images) = 0;
  // Nanoseconds of the last forward and backward in which the worker did nothing but wait for the
  // exchange.
  struct Exposed {
    double forward = 0;
    double backward = 0;
  };
  virtual Exposed take_exposed() = 0;
  virtual void step(double lr) = 0;
  // All workers have all weights. Collective; blocks.
  virtual void settle() = 0;
  // No worker begins a step before all have taken the one before.
  virtual bool in_lockstep() const = 0;
  // Collective.
  virtual void report(TrainReport& report) = 0;
};

std::unique_ptr<Synchroniser> make_synchroniser(Session& session, std::shared_ptr<Classifier> model,
                                                const TrainOptions& options, double lr);

}  // namespace syncline::tools
