#include "session/aggregated_calls.h"

#include <cstring>
#include <utility>

#include "session/log.h"

namespace syncline::session {

AggregatedCalls::AggregatedCalls(std::shared_ptr<exec::Engine> engine,
                                 collective::AggregationGroup aggregation,
                                 std::shared_ptr<Communicator::Impl> own)
    : engine_(std::move(engine)), aggregation_(std::move(aggregation)), own_(std::move(own)) {}

// A worker without a call under way hears of it too: others may need what it has.
void AggregatedCalls::watch() {
  engine_->add_ticker([weak = weak_from_this(), group = aggregation_.group](Nanos) {
    const auto self = weak.lock();
    if (self == nullptr) return false;
    if (group->broken.ok()) return true;  // with the baton
    if (self->is_without_aggregator(group->broken)) self->meet();
    return false;
  });
}

bool AggregatedCalls::is_without_aggregator(const Status& status) const {
  const bool gone = status.code() == Code::kPeerLost || status.code() == Code::kShutdown ||
                    status.code() == Code::kFailedPrecondition;
  return gone && status.peer() >= aggregation_.workers;
}

void AggregatedCalls::start(std::vector<exec::MessageRequest> announcements,
                            exec::OperationRequest request, Communicator::Impl::Call call,
                            CallOptions options, std::shared_ptr<WorkState> work) {
  Kept kept;
  kept.announcements = std::move(announcements);
  kept.request = std::move(request);
  kept.call = call;
  kept.options = std::move(options);
  kept.options.schedule.clear();
  kept.work = std::move(work);
  {
    MutexLock lock(mutex_);
    calls_.emplace(next_++, std::move(kept));
  }
  pump();
}

bool AggregatedCalls::in_one_window(std::uint64_t first, std::uint64_t last) const {
  std::size_t bytes = 0;
  for (auto at = calls_.find(first); at != calls_.end() && at->first <= last; ++at) {
    bytes += at->second.call.in.bytes();
  }
  return first == last || (last - first < kWindow && bytes <= kWindowBytes);
}

AggregatedCalls::Calls::iterator AggregatedCalls::next_call() {
  const auto next = calls_.find(begun_);
  if (next == calls_.end() || phase_ == Phase::kMeeting) return calls_.end();
  if (phase_ == Phase::kAggregating && !in_one_window(prefix_, begun_)) return calls_.end();
  // What the aggregator's group still writes to must end first.
  return next->second.under_way ? calls_.end() : next;
}

// One thread at a time begins calls, so that they keep their order.
void AggregatedCalls::pump() {
  for (;;) {
    std::vector<exec::Engine::Call> calls;
    Communicator::Impl::Call again;
    CallOptions options;
    std::uint64_t number = 0;
    ConstTensorView input;
    Buffer copy;
    {
      MutexLock lock(mutex_);
      if (pumping_) return;  // that thread looks again
      const auto next = next_call();
      if (next == calls_.end()) return;
      pumping_ = true;
      number = begun_++;
      Kept& kept = next->second;
      if (phase_ == Phase::kOnTheirOwn) {
        if (kept.done) kept.again = buffers_.take(kept.call.out.bytes());
        again = kept.call;
        if (kept.done) {
          again.out = TensorView(kept.again.get(), kept.call.out.count(), kept.call.out.type());
        }
        options = kept.options;
        if (number < canonical_until_) options.reproducible = true;
      } else {
        kept.launched = kept.under_way = true;
        input = kept.call.in;
        copy = kept.input = buffers_.take(input.bytes());
        kept.request.in = copy.get();
        kept.call.in = ConstTensorView(copy.get(), input.count(), input.type());
        for (auto& message : kept.announcements) calls.emplace_back().message = std::move(message);
        calls.emplace_back().operation = std::move(kept.request);
      }
    }
    if (calls.empty()) {
      do_again(number, again, options);
    } else {
      // The caller may change its own once the result is there; others may need it still.
      if (input.bytes() != 0) std::memcpy(copy.get(), input.data(), input.bytes());
      aggregate(number, std::move(calls));
    }
    MutexLock lock(mutex_);
    pumping_ = false;
  }
}

void AggregatedCalls::aggregate(std::uint64_t number, std::vector<exec::Engine::Call> calls) {
  for (exec::Engine::Call& each : calls) each.work = std::make_shared<WorkState>(engine_);
  calls.back().work->on_complete([self = shared_from_this(), number](const Status& status) {
    self->on_aggregated(number, status);
  });
  engine_->submit(calls);
}

void AggregatedCalls::on_aggregated(std::uint64_t number, const Status& status) {
  std::shared_ptr<WorkState> ended;
  const bool orphaned = is_without_aggregator(status);
  {
    MutexLock lock(mutex_);
    Kept& kept = calls_.at(number);
    kept.under_way = false;
    if (!orphaned || phase_ == Phase::kBroken) {
      ended = kept.work;
      kept.done = true;
    }
    if (!status.ok() && !orphaned) phase_ = Phase::kBroken;
    if (phase_ == Phase::kBroken) kept.input = nullptr;
    for (auto at = calls_.find(prefix_); at != calls_.end() && at->second.done; ++at) ++prefix_;
    // All workers have these; whoever still meets about them finds them done.
    while (status.ok() && phase_ == Phase::kAggregating && calls_.begin()->second.done &&
           calls_.begin()->first < number && !in_one_window(calls_.begin()->first, number)) {
      Kept& oldest = calls_.begin()->second;
      buffers_.give(std::move(oldest.input), oldest.call.in.bytes());
      calls_.erase(calls_.begin());
    }
  }
  if (ended != nullptr) ended->complete(status);
  if (orphaned) meet();
  pump();
}

void AggregatedCalls::meet() {
  Communicator::Impl::Call call;
  {
    MutexLock lock(mutex_);
    if (phase_ != Phase::kAggregating) return;
    phase_ = Phase::kMeeting;
    met_ = {-static_cast<std::int64_t>(prefix_), static_cast<std::int64_t>(begun_)};
    call.kind = Collective::kAllReduce;
    call.in = {met_.data(), met_.size()};
    call.out = {met_.data(), met_.size()};
    call.count = met_.size();
    call.op = ReduceOp::kMax;
  }
  CallOptions options;
  options.name = "without aggregator";
  own_->start(call, options).on_complete([self = shared_from_this()](const Status& status) {
    self->on_met(status);
  });
}

void AggregatedCalls::on_met(const Status& status) {
  std::vector<std::shared_ptr<WorkState>> ended;
  {
    MutexLock lock(mutex_);
    if (status.ok() && phase_ == Phase::kMeeting) {
      phase_ = Phase::kOnTheirOwn;
      begun_ = static_cast<std::uint64_t>(-met_[0]);
      canonical_until_ = static_cast<std::uint64_t>(met_[1]);
      calls_.erase(calls_.begin(), calls_.lower_bound(begun_));
    } else {
      phase_ = Phase::kBroken;
      for (auto& [number, kept] : calls_) {
        if (!kept.done && kept.launched && !kept.under_way) ended.push_back(kept.work);
        kept.done = kept.done || (kept.launched && !kept.under_way);
      }
    }
  }
  for (const auto& work : ended) work->complete(status);
  if (status.ok()) {
    log_line(own_->rank(),
             "an aggregator is gone; all_reduces go on without aggregators, from call " +
                 std::to_string(-met_[0]));
  }
  pump();
}

void AggregatedCalls::do_again(std::uint64_t number, const Communicator::Impl::Call& call,
                               const CallOptions& options) {
  own_->start(call, options).on_complete([self = shared_from_this(), number](const Status& status) {
    self->on_done_again(number, status);
  });
}

void AggregatedCalls::on_done_again(std::uint64_t number, const Status& status) {
  std::shared_ptr<WorkState> ended;
  {
    MutexLock lock(mutex_);
    const auto at = calls_.find(number);
    if (!at->second.done) ended = at->second.work;
    calls_.erase(at);
  }
  if (ended != nullptr) ended->complete(status);
}

}  // namespace syncline::session
