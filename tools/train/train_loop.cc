#include "tools/train/train_loop.h"

#include <ATen/Parallel.h>
#include <torch/nn/functional/loss.h>
#include <torch/utils.h>

#include <chrono>
#include <cmath>
#include <memory>
#include <random>
#include <thread>

#include "base/env.h"
#include "fmt/format.h"
#include "kernels/crc32c.h"
#include "syncline/data/sampler.h"
#include "tools/run/cpus.h"
#include "tools/train/evaluate.h"
#include "tools/train/lr_schedule.h"
#include "tools/train/progress.h"
#include "tools/train/sample_pool.h"
#include "tools/train/stop_vote.h"
#include "tools/train/synchroniser.h"

namespace syncline::tools {
namespace {

namespace F = torch::nn::functional;

// The five times of one step, in nanoseconds, added up.
struct PhaseSums {
  double data = 0, forward = 0, backward = 0, exposed = 0, optimiser = 0;
};

int choose_threads(const TrainOptions& options, const Session& session) {
  if (options.threads > 0) return options.threads;
  if (env("OMP_NUM_THREADS").has_value()) return at::get_num_threads();
  return std::max(1, usable_cores() / std::max(1, session.local_world_size()));
}

class Trainer {
 public:
  Trainer(Session& session, const TrainOptions& options, const data::ImageSet& training,
          const data::ImageSet& test)
      : session_(session),
        world_(session.world()),
        options_(options),
        training_(training),
        test_(test),
        statistics_(pixel_statistics(training)),
        batches_(training, statistics_,
                 options.augment == "shift-flip" ? Augment::kShiftFlip : Augment::kNone,
                 options.seed),
        test_batches_(test, statistics_, Augment::kNone, 0),
        lr_(default_lr(options, session.world_size())),
        schedule_(lr_, steps_in_all(), options.warmup, options.lr_schedule),
        model_(seeded_model()),
        synchroniser_(make_synchroniser(session, model_, options, lr_)),
        sampler_(training.count, options.pool ? 1 : world_.size(), options.pool ? 0 : world_.rank(),
                 sampler_options()),
        progress_(options.quiet ? "none" : options.progress, session.rank() == 0),
        vote_(world_) {
    if (options.pool) pool_ = std::make_unique<SamplePool>(world_, training.count);
    for (const std::string& text : options.slow) {
      const Slowness each = parse_slowness(text).value();
      if (each.rank == -1 || each.rank == session.rank()) slowness_.push_back(each);
    }
  }

  TrainReport run() {
    for (int epoch = 0; epoch < options_.epochs && !ended(); ++epoch) {
      train_epoch(epoch);
      const bool last = epoch + 1 == options_.epochs || ended();
      if (options_.evaluate == "epoch" || (options_.evaluate == "end" && last)) test_epoch(epoch);
    }
    return report();
  }

 private:
  std::int64_t steps_per_epoch() const {
    const std::int64_t samples = (training_.count + world_.size() - 1) / world_.size();
    const std::int64_t forwards = (samples + options_.batch - 1) / options_.batch;
    return (forwards + options_.accum - 1) / options_.accum;
  }

  std::int64_t steps_in_all() const {
    const std::int64_t steps = steps_per_epoch() * options_.epochs;
    return options_.max_steps > 0 ? std::min(steps, options_.max_steps) : steps;
  }

  bool ended() const {
    if (pool_ != nullptr && options_.max_steps == 0) return stopped_;  // the pool ends epochs
    return stopped_ || step_ >= steps_in_all();
  }

  data::SamplerOptions sampler_options() const {
    data::SamplerOptions result;
    result.seed = options_.seed;
    return result;
  }

  std::shared_ptr<Classifier> seeded_model() const {
    torch::manual_seed(options_.seed);
    return make_model(options_.model,
                      {1, static_cast<int>(training_.rows), static_cast<int>(training_.columns)},
                      static_cast<int>(std::max(training_.classes, test_.classes)));
  }

  void train_epoch(int epoch) {
    const Nanos begun = monotonic_now();
    const std::int64_t first = step_;
    const std::int64_t steps = std::min(steps_per_epoch(), steps_in_all() - step_);
    progress_.begin(fmt::format("epoch {}/{}", epoch + 1, options_.epochs), steps, begun);
    sampler_.set_epoch(static_cast<std::uint64_t>(epoch));
    while (!ended() && train_step(static_cast<std::uint64_t>(epoch))) {
      const Nanos now = monotonic_now();
      if (progress_.due(step_ - first, now)) progress_.update(step_ - first, now, state());
    }
    train_time_ += monotonic_now() - begun;
    if (!stopped_) progress_.finish(monotonic_now(), state());
  }

  std::string state() const {
    return fmt::format("loss={:.3f}, lr={:.4f}", loss_,
                       schedule_.at(std::max<std::int64_t>(step_ - 1, 0)));
  }

  // The forwards of one optimiser step; empty at the end of the epoch.
  std::vector<data::SampleBatch> next_forwards() {
    return pool_ == nullptr ? forwards_of_share() : forwards_of_pool();
  }

  std::vector<data::SampleBatch> forwards_of_pool() {
    std::vector<data::SampleBatch> result;
    while (static_cast<int>(result.size()) < options_.accum) {
      const auto share = pool_->next(sampler_.epoch(), static_cast<std::uint64_t>(options_.batch));
      if (!share.has_value()) break;
      data::SamplerState place = sampler_.state_dict();
      place.sample_in_epoch = share->begin;
      sampler_.load_state_dict(place);
      result.push_back(*sampler_.next(share->count));
    }
    return result;
  }

  std::vector<data::SampleBatch> forwards_of_share() {
    std::vector<data::SampleBatch> result;
    while (static_cast<int>(result.size()) < options_.accum) {
      auto batch = sampler_.next(static_cast<std::size_t>(options_.batch));
      if (!batch.has_value()) break;
      result.push_back(std::move(*batch));
      // Asking on at the end of an epoch would begin the next one.
      if (++forwards_ == forwards_per_epoch()) break;
    }
    return result;
  }

  std::int64_t forwards_per_epoch() const {
    const std::int64_t samples = (training_.count + world_.size() - 1) / world_.size();
    return (samples + options_.batch - 1) / options_.batch;
  }

  bool train_step(std::uint64_t epoch) {
    if (pool_ == nullptr && forwards_ == forwards_per_epoch()) {
      return forwards_ = 0, sampler_.next(1), false;
    }
    if (synchroniser_->in_lockstep()) vote_.begin(session_.stop_requested());
    Nanos mark = monotonic_now();
    const Nanos begun = mark;
    const std::vector<data::SampleBatch> forwards = next_forwards();
    if (forwards.empty()) return false;
    double samples = 0;
    for (const auto& batch : forwards) samples += static_cast<double>(batch.indices.size());
    double loss = 0;
    for (std::size_t i = 0; i < forwards.size(); ++i) {
      const double weight = static_cast<double>(forwards[i].indices.size()) / samples;
      loss += weight * forward_backward(forwards[i], epoch, weight, i + 1 == forwards.size(), mark);
    }
    be_slow(begun, mark);
    synchroniser_->step(schedule_.at(step_));
    lap(mark, sums_.optimiser);
    finish_step(loss, samples);
    return true;
  }

  // Sleeps for what a slow worker would need more than this one's usual step.
  void be_slow(Nanos begun, Nanos& mark) {
    const auto took = static_cast<double>(monotonic_now() - begun) - waited_;
    usual_ = step_ == 0 ? took : std::min(usual_ * 1.02, took);
    waited_ = 0;
    for (const Slowness& each : slowness_) {
      if (std::uniform_real_distribution<double>()(random_) >= each.share) continue;
      std::this_thread::sleep_for(
          std::chrono::nanoseconds(static_cast<Nanos>((each.factor - 1) * usual_)));
    }
    if (!slowness_.empty()) lap(mark, sums_.backward);  // as if it had computed
  }

  double forward_backward(const data::SampleBatch& share, std::uint64_t epoch, double weight,
                          bool last, Nanos& mark) {
    const Batch batch = make_batch(training_, batches_, share.indices, epoch);
    lap(mark, sums_.data);
    synchroniser_->begin_backward(last, static_cast<double>(share.indices.size()));
    const torch::Tensor loss =
        F::cross_entropy(synchroniser_->forward(batch.images), batch.labels,
                         F::CrossEntropyFuncOptions().label_smoothing(options_.label_smoothing));
    const auto value = loss.item<double>();
    lap(mark, sums_.forward);
    (weight == 1 ? loss : loss * weight).backward();
    lap(mark, sums_.backward);
    const Synchroniser::Exposed exposed = synchroniser_->take_exposed();
    sums_.forward -= exposed.forward;
    sums_.backward -= exposed.backward;
    sums_.exposed += exposed.forward + exposed.backward;
    waited_ += exposed.forward + exposed.backward;
    return value;
  }

  void finish_step(double loss, double samples) {
    samples_ += samples;
    if (!std::isfinite(loss)) {
      throw Error(Status(Code::kInternal,
                         fmt::format("the training loss is {} in step {} on rank {}: the learning "
                                     "rate {:.4g} is too high for this model; give a smaller --lr",
                                     loss, step_ + 1, session_.rank(), lr_)));
    }
    loss_ = step_ == 0 ? loss : 0.95 * loss_ + 0.05 * loss;
    ++step_;
    // Workers that run apart end apart.
    stopped_ = synchroniser_->in_lockstep() ? vote_.end() : session_.stop_requested();
  }

  static void lap(Nanos& mark, double& sum) {
    const Nanos now = monotonic_now();
    sum += static_cast<double>(now - mark);
    mark = now;
  }

  void test_epoch(int epoch) {
    if (stopped_) return;
    synchroniser_->settle();
    evaluations_.push_back(evaluate(*model_, test_, test_batches_, 250, world_));
    if (options_.quiet || options_.progress == "none" || session_.rank() != 0) return;
    const EvalResult& e = evaluations_.back();
    fmt::print(stderr, "epoch {}/{}: test accuracy {:.2f} %, loss {:.4f}\n", epoch + 1,
               options_.epochs, 100 * e.accuracy, e.loss);
  }

  TrainReport report() {
    TrainReport r;
    r.options = options_;
    r.lr = lr_;
    r.world_size = world_.size();
    r.rank_source = session_.rank_source();
    r.threads = at::get_num_threads();
    for (const torch::Tensor& p : model_->parameters())
      r.parameters += static_cast<std::uint64_t>(p.numel());
    r.steps = step_;
    r.evaluations = evaluations_;
    r.stopped = stopped_;
    const double steps = std::max<double>(static_cast<double>(step_), 1) * kMillisecond;
    double means[] = {sums_.data / steps,    sums_.forward / steps,   sums_.backward / steps,
                      sums_.exposed / steps, sums_.optimiser / steps, loss_};
    const double compute = means[1] + means[2] + means[4];
    double highest[] = {compute, -compute, static_cast<double>(train_time_) / kSecond};
    double total[] = {samples_};
    world_.all_reduce(TensorView(means, 6), ReduceOp::kAverage).wait();
    world_.all_reduce(TensorView(highest, 3), ReduceOp::kMax).wait();
    world_.all_reduce(TensorView(total, 1), ReduceOp::kSum).wait();
    r.phases = {means[0], means[1], means[2], means[3], means[4]};
    r.final_loss = means[5];
    r.compute_ms_max = highest[0];
    r.compute_ms_min = -highest[1];
    r.train_seconds = highest[2];
    r.samples = static_cast<std::uint64_t>(total[0]);
    synchroniser_->report(r);
    for (const torch::Tensor& p : model_->parameters()) {
      const torch::Tensor dense = p.detach().contiguous();
      r.parameters_crc32c = kernels::crc32c(
          dense.data_ptr(), static_cast<std::size_t>(dense.nbytes()), r.parameters_crc32c);
    }
    return r;
  }

  Session& session_;
  Communicator& world_;
  const TrainOptions& options_;
  const data::ImageSet& training_;
  const data::ImageSet& test_;
  PixelStatistics statistics_;
  ImageBatches batches_;
  ImageBatches test_batches_;
  double lr_;
  LrSchedule schedule_;
  std::shared_ptr<Classifier> model_;
  std::unique_ptr<Synchroniser> synchroniser_;
  data::DistributedSampler sampler_;
  std::unique_ptr<SamplePool> pool_;
  std::vector<Slowness> slowness_;
  std::mt19937_64 random_{options_.seed * 1000 + static_cast<std::uint64_t>(session_.rank())};
  double usual_ = 0;   // nanoseconds of a step that nothing holds up
  double waited_ = 0;  // of the running step, for the exchange
  Progress progress_;
  StopVote vote_;
  PhaseSums sums_;
  std::vector<EvalResult> evaluations_;
  std::int64_t step_ = 0;
  std::int64_t forwards_ = 0;  // in this epoch
  double samples_ = 0;
  double loss_ = 0;
  Nanos train_time_ = 0;
  bool stopped_ = false;
};

}  // namespace

TrainReport train(Session& session, const TrainOptions& options, const data::ImageSet& training,
                  const data::ImageSet& test) {
  at::set_num_threads(choose_threads(options, session));
  return Trainer(session, options, training, test).run();
}

}  // namespace syncline::tools
