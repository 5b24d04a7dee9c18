// The training loop of `syncline train`.
#pragma once

#include "syncline/data/idx.h"
#include "syncline/session.h"
#include "tools/train/report.h"

namespace syncline::tools {

// Collective; blocks until trained, stopped on request (report.stopped) or failed (throws Error).
// Prints progress on rank 0. Every rank returns the same report.
TrainReport train(Session& session, const TrainOptions& options, const data::ImageSet& training,
                  const data::ImageSet& test);

}  // namespace syncline::tools
