// AggregatedCalls: the all-reduces of a session that go through aggregators, and go on without them
// when one of them dies.
//
//   aggregating -> meeting -> on their own       an aggregator is gone
//   aggregating | meeting -> broken              a worker is: calls fail, as always
//
// Calls are numbered on all workers alike. Only so many of them are under way (in_one_window()): so
// whoever completes call j knows that all workers have completed what lies a window before it,
// since the aggregator had a contribution to j from each. Inputs of younger calls are kept. When an
// aggregator dies the workers meet in a group of their own and agree on the oldest call that
// somebody has not completed; all do the calls from there on again, by the workers' own schedules.
// What some had from the aggregator and others get so is summed in the canonical order, which is
// the aggregators': the same bits.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/buffers.h"
#include "base/mutex.h"
#include "session/communicator_impl.h"

namespace syncline::session {

// Thread-safe. Driven by callers and by callbacks of the engine; none blocks.
class AggregatedCalls : public std::enable_shared_from_this<AggregatedCalls> {
 public:
  static constexpr std::uint64_t kWindow = 8;
  static constexpr std::size_t kWindowBytes = 64 << 20;

  // `own`: all workers, for nothing else than this.
  AggregatedCalls(std::shared_ptr<exec::Engine> engine, collective::AggregationGroup aggregation,
                  std::shared_ptr<Communicator::Impl> own);

  // Once, before the engine runs: from then on it looks whether the aggregators live.
  void watch();
  // What goes to the aggregators and, should it come to that, the same call for the workers' group.
  // Completes `work`.
  void start(std::vector<exec::MessageRequest> announcements, exec::OperationRequest request,
             Communicator::Impl::Call call, CallOptions options, std::shared_ptr<WorkState> work);

 private:
  enum class Phase : std::uint8_t { kAggregating, kMeeting, kOnTheirOwn, kBroken };
  struct Kept {
    std::vector<exec::MessageRequest> announcements;
    exec::OperationRequest request;
    Communicator::Impl::Call call;
    CallOptions options;
    Buffer input;  // a copy, of what went to the aggregators
    Buffer again;  // where a result goes that is there already
    std::shared_ptr<WorkState> work;
    bool launched = false;
    bool under_way = false;
    bool done = false;
  };
  using Calls = std::map<std::uint64_t, Kept>;

  // The calls from `first` to `last` may be under way together; a single one always may.
  bool in_one_window(std::uint64_t first, std::uint64_t last) const SYNCLINE_REQUIRES(mutex_);
  void pump();
  // What to begin next; end(): nothing.
  Calls::iterator next_call() SYNCLINE_REQUIRES(mutex_);
  void aggregate(std::uint64_t number, std::vector<exec::Engine::Call> calls);
  void do_again(std::uint64_t number, const Communicator::Impl::Call& call,
                const CallOptions& options);
  void on_aggregated(std::uint64_t number, const Status& status);
  void on_done_again(std::uint64_t number, const Status& status);
  void meet();
  void on_met(const Status& status);
  bool is_without_aggregator(const Status& status) const;

  const std::shared_ptr<exec::Engine> engine_;
  const collective::AggregationGroup aggregation_;
  const std::shared_ptr<Communicator::Impl> own_;
  Mutex mutex_;
  Phase phase_ SYNCLINE_GUARDED_BY(mutex_) = Phase::kAggregating;
  bool pumping_ SYNCLINE_GUARDED_BY(mutex_) = false;
  Calls calls_ SYNCLINE_GUARDED_BY(mutex_);                        // by number
  std::uint64_t next_ SYNCLINE_GUARDED_BY(mutex_) = 0;             // number of the next call
  std::uint64_t begun_ SYNCLINE_GUARDED_BY(mutex_) = 0;            // all below went out
  std::uint64_t prefix_ SYNCLINE_GUARDED_BY(mutex_) = 0;           // all below are complete here
  std::uint64_t canonical_until_ SYNCLINE_GUARDED_BY(mutex_) = 0;  // of those that are done again
  // Of the meeting: minus the own prefix_, and begun_; then the largest of all workers.
  std::array<std::int64_t, 2> met_{};
  Buffers buffers_ SYNCLINE_GUARDED_BY(mutex_);
};

}  // namespace syncline::session
