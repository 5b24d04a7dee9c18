#include "tools/train/evaluate.h"

#include <torch/nn/functional/loss.h>

#include "syncline/data/sampler.h"
#include "syncline/torch/collectives.h"
#include "syncline/torch/metrics.h"

namespace syncline::tools {

Batch make_batch(const data::ImageSet& set, const ImageBatches& batches,
                 const std::vector<std::uint64_t>& indices, std::uint64_t epoch) {
  const auto n = static_cast<std::int64_t>(indices.size());
  Batch batch{torch::empty({n, 1, static_cast<std::int64_t>(set.rows),
                            static_cast<std::int64_t>(set.columns)}),
              torch::empty({n}, torch::kInt64)};
  batches.fill(indices, epoch, batch.images.data_ptr<float>(),
               batch.labels.data_ptr<std::int64_t>());
  return batch;
}

EvalResult evaluate(Classifier& model, const data::ImageSet& set, const ImageBatches& batches,
                    std::size_t batch_size, Communicator& world) {
  torch::NoGradGuard no_grad;
  for (const torch::Tensor& buffer : model.buffers()) broadcast(world, buffer, 0).wait();
  model.eval();
  data::SamplerOptions in_order;
  in_order.shuffle = false;
  in_order.padding = false;
  MetricReducer metrics({"loss", "correct"});
  if (set.count > static_cast<std::uint32_t>(world.rank())) {
    data::DistributedSampler sampler(set.count, world.size(), world.rank(), in_order);
    while (const auto share = sampler.next(batch_size)) {
      const Batch batch = make_batch(set, batches, share->indices, 0);
      const auto n = static_cast<std::int64_t>(share->real_count);
      if (n == 0) continue;
      const torch::Tensor scores = model.forward(batch.images).narrow(0, 0, n);
      const torch::Tensor labels = batch.labels.narrow(0, 0, n);
      const auto mean_loss = torch::nn::functional::cross_entropy(scores, labels).item<double>();
      const auto correct = scores.argmax(1).eq(labels).sum().item<std::int64_t>();
      metrics.add("loss", mean_loss * static_cast<double>(n), n);
      metrics.add("correct", static_cast<double>(correct), n);
    }
  }
  model.train();
  const std::vector<Metric> all = metrics.reduce(world);
  return {static_cast<std::uint64_t>(all[0].count), all[1].mean(), all[0].mean()};
}

}  // namespace syncline::tools
