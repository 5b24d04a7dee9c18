// Accuracy of a model over the whole test set, computed by all ranks together.
#pragma once

#include <memory>

#include "syncline/communicator.h"
#include "syncline/data/idx.h"
#include "tools/train/image_batches.h"
#include "tools/train/models.h"
#include "tools/train/report.h"

namespace syncline::tools {

// Collective; blocks. Each image counts once however many ranks share the set, and running
// statistics are rank 0's on every rank, so the result does not depend on which rank holds which
// image. The model is in training mode afterwards.
EvalResult evaluate(Classifier& model, const data::ImageSet& set, const ImageBatches& batches,
                    std::size_t batch_size, Communicator& world);

// [n, 1, rows, columns] f32 and [n] i64.
struct Batch {
  torch::Tensor images;
  torch::Tensor labels;
};
Batch make_batch(const data::ImageSet& set, const ImageBatches& batches,
                 const std::vector<std::uint64_t>& indices, std::uint64_t epoch);

}  // namespace syncline::tools
