#include "tools/train/synchroniser.h"

#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <optional>

#include "base/clock.h"
#include "syncline/torch/ddp.h"
#include "syncline/torch/kvstore_optimizer.h"
#include "tools/train/exchange_times.h"

namespace syncline::tools {
namespace {

DdpOptions ddp_options(const TrainOptions& options) {
  DdpOptions result;
  if (options.bucket_cap_mb > 0) {
    result.bucket_cap_mb(options.bucket_cap_mb);
    if (options.bucket_cap_mb < result.first_bucket_mb()) {
      result.first_bucket_mb(options.bucket_cap_mb);
    }
  }
  return result.schedule(options.sync);
}

std::unique_ptr<torch::optim::Optimizer> make_optimiser(const TrainOptions& o, double lr,
                                                        std::vector<torch::Tensor> parameters) {
  if (o.optimizer == "adamw") {
    return std::make_unique<torch::optim::AdamW>(
        std::move(parameters), torch::optim::AdamWOptions(lr).weight_decay(o.weight_decay));
  }
  return std::make_unique<torch::optim::SGD>(std::move(parameters),
                                             torch::optim::SGDOptions(lr)
                                                 .momentum(o.momentum)
                                                 .nesterov(o.momentum > 0)
                                                 .weight_decay(o.weight_decay));
}

class WithDdp : public Synchroniser {
 public:
  WithDdp(Session& session, std::shared_ptr<Classifier> model, const TrainOptions& options,
          double lr)
      : options_(options),
        ddp_(model, session.world(), ddp_options(options)),
        optimiser_(make_optimiser(options, lr, model->parameters())) {}

  void begin_backward(bool last, double) override {
    last_ = last;
    sync_.reset();
    sync_.emplace(ddp_.sync_when(last));
  }
  torch::Tensor forward(torch::Tensor images) override { return ddp_(std::move(images)); }
  Exposed take_exposed() override {
    return {0, last_ ? ddp_.last_step().exposed_us * kMicrosecond : 0};
  }
  void step(double lr) override {
    sync_.reset();
    for (auto& group : optimiser_->param_groups()) group.options().set_lr(lr);
    optimiser_->step();
    optimiser_->zero_grad();
    bucket_times_.add(ddp_.last_step());
  }
  void settle() override {}
  bool in_lockstep() const override { return true; }
  void report(TrainReport& report) override {
    report.buckets = bucket_times_.finish(ddp_.communicator(), options_.sync);
  }

 private:
  const TrainOptions& options_;
  DistributedDataParallel<Classifier> ddp_;
  std::unique_ptr<torch::optim::Optimizer> optimiser_;
  std::optional<SyncGuard> sync_;
  BucketTimes bucket_times_;
  bool last_ = true;
};

optim::Optimizer store_optimiser(const TrainOptions& o, double lr) {
  optim::Optimizer result = optim::Sgd(lr).momentum(o.momentum).nesterov(o.momentum > 0);
  if (o.optimizer == "adamw") result = optim::AdamW(lr);
  return result.weight_decay(o.weight_decay);
}

class WithStore : public Synchroniser {
 public:
  WithStore(Session& session, std::shared_ptr<Classifier> model, const TrainOptions& options,
            double lr)
      : session_(session),
        model_(std::move(model)),
        consistency_(Consistency::parse(options.consistency)),
        store_(session.kvstore(KVStoreOptions()
                                   .consistency(consistency_)
                                   .reduce(Reduce::kMeanBySamples)
                                   .scale_by_age(options.scale_by_age))),
        optimiser_(store_, *model_, store_optimiser(options, scaled(lr))) {}

  void begin_backward(bool last, double samples) override {
    optimiser_.set_sync(last);
    optimiser_.set_samples(samples);
  }
  torch::Tensor forward(torch::Tensor images) override {
    optimiser_.wait();
    exposed_ += optimiser_.waited_us() * kMicrosecond - counted_;
    counted_ = optimiser_.waited_us() * kMicrosecond;
    return model_->forward(std::move(images));
  }
  Exposed take_exposed() override { return {std::exchange(exposed_, 0), 0}; }
  void step(double lr) override {
    optimiser_.set_lr(scaled(lr));
    optimiser_.step();
    optimiser_.zero_grad();
    counted_ = 0;
  }
  void settle() override {
    optimiser_.wait();
    store_.flush();
    session_.world().barrier().wait();
    if (!in_lockstep()) optimiser_.refresh();
  }
  bool in_lockstep() const override { return consistency_.bound() == 0; }
  void report(TrainReport& report) override {
    settle();
    if (session_.rank() == 0) report.store = store_.stats();
    report.store_servers = store_.servers();
    report.store_sums_on_hosts = store_.sums_on_hosts();
    report.consistency = consistency_.to_string();
    session_.world().barrier().wait();
  }

 private:
  // A bulk step takes the mean of all workers' gradients, others take each gradient by itself.
  double scaled(double lr) const { return in_lockstep() ? lr : lr / session_.world_size(); }

  Session& session_;
  std::shared_ptr<Classifier> model_;
  Consistency consistency_;
  KVStore store_;
  KVStoreOptimizer optimiser_;
  double exposed_ = 0, counted_ = 0;
};

}  // namespace

std::unique_ptr<Synchroniser> make_synchroniser(Session& session, std::shared_ptr<Classifier> model,
                                                const TrainOptions& options, double lr) {
  if (options.sync == "ps") {
    return std::make_unique<WithStore>(session, std::move(model), options, lr);
  }
  return std::make_unique<WithDdp>(session, std::move(model), options, lr);
}

}  // namespace syncline::tools
