#include "tools/run/supervisor.h"

#include <signal.h>

#include <algorithm>

#include "tools/cli/exit_code.h"

namespace syncline::tools {
namespace {

constexpr Nanos kKillLimit = 10 * kSecond;  // SIGKILL to gone; longer means an unkillable process

}  // namespace

int RankEnd::exit_code() const {
  if (lost) return kExitFailure;
  return signal != 0 ? kExitSignalBase + signal : code;
}

Supervisor::Supervisor(int ranks, Nanos grace, Nanos limit, Nanos now, int servers, bool expendable)
    : grace_(grace),
      ranks_(ranks),
      expendable_(expendable),
      ends_(static_cast<std::size_t>(ranks + servers)),
      running_(ranks + servers),
      ranks_running_(ranks) {
  if (limit > 0) deadline_ = now + limit;
}

void Supervisor::on_exit(int rank, RankEnd end, Nanos now) {
  auto& slot = ends_[static_cast<std::size_t>(rank)];
  if (slot.has_value()) return;
  // Told to end while it waited for ranks that never came: that is its order.
  if (winding_down_ && told_ && end.signal == SIGTERM) end = {};
  slot = end;
  --running_;
  if (rank < ranks_) --ranks_running_;
  if (end.failed() && stop_ == Stop::kNone && !is_spared(rank, end)) {
    first_cause_ = rank;
    // Ranks that ask to be requeued were all told to stop: they get their time to save.
    begin_stop(Stop::kRankFailed, end.exit_code() == kExitRequeue ? Ask::kNothing : Ask::kTerminate,
               now);
  }
  if (ranks_running_ == 0 && running_ > 0) wind_down(now);
}

void Supervisor::wind_down(Nanos now) {
  if (winding_down_) return;
  winding_down_ = true;
  if (!told_ && pending_ == Ask::kNothing) pending_ = Ask::kTerminate;
  if (stop_ == Stop::kNone) deadline_ = now + grace_;
}

void Supervisor::on_interrupt(Nanos now) {
  if (stop_ == Stop::kInterrupt) {
    pending_ = Ask::kKill;
  } else if (stop_ == Stop::kNone) {
    begin_stop(Stop::kInterrupt, Ask::kTerminate, now);
  } else {
    stop_ = first_cause_.has_value() ? stop_ : Stop::kInterrupt;
    pending_ = Ask::kKill;
  }
}

void Supervisor::on_terminate(Nanos now) {
  if (stop_ == Stop::kNone) begin_stop(Stop::kTerminated, Ask::kTerminate, now);
}

void Supervisor::on_output_closed(Nanos now) {
  if (stop_ == Stop::kNone) begin_stop(Stop::kOutputClosed, Ask::kTerminate, now);
}

void Supervisor::begin_stop(Stop why, Ask ask, Nanos now) {
  stop_ = why;
  pending_ = ask;
  deadline_ = now + grace_;
}

Supervisor::Ask Supervisor::poll(Nanos now) {
  if (deadline_.has_value() && now >= *deadline_) {
    if (stop_ == Stop::kNone && !winding_down_) {
      begin_stop(Stop::kTimeLimit, Ask::kTerminate, now);
    } else if (stop_ == Stop::kRankFailed && !told_ && pending_ == Ask::kNothing) {
      begin_stop(stop_, Ask::kTerminate, now);
    } else {
      pending_ = Ask::kKill;
    }
  }
  const Ask ask = running_ > 0 ? pending_ : Ask::kNothing;
  pending_ = Ask::kNothing;
  if (ask == Ask::kTerminate) told_ = true;
  if (ask != Ask::kKill) return ask;
  deadline_.reset();
  if (killed_) return Ask::kNothing;
  killed_ = true;
  killed_at_ = now;
  return ask;
}

bool Supervisor::stuck(Nanos now) const {
  return running_ > 0 && killed_ && now - killed_at_ > kKillLimit;
}

bool Supervisor::is_collateral(int rank) const {
  const auto& end = end_of(rank);
  return end.has_value() && end->failed() && first_cause_.has_value() && first_cause_ != rank &&
         !is_spared(rank, *end);
}

int Supervisor::exit_code() const {
  const auto requeue = [](const std::optional<RankEnd>& end) {
    return end.has_value() && end->exit_code() == kExitRequeue;
  };
  if (first_cause_.has_value()) return end_of(*first_cause_)->exit_code();
  if (stop_ == Stop::kNone) return running_ == 0 ? kExitOk : kExitFailure;
  if (stop_ == Stop::kTimeLimit) return kExitTimeout;
  if (std::any_of(ends_.begin(), ends_.end(), requeue)) return kExitRequeue;
  if (stop_ == Stop::kInterrupt) return kExitInterrupted;
  if (stop_ == Stop::kOutputClosed) return kExitFailure;
  for (std::size_t i = 0; i < ends_.size(); ++i) {
    const auto& end = ends_[i];
    if (!end.has_value()) return kExitFailure;
    if (end->failed() && !is_spared(static_cast<int>(i), *end)) return end->exit_code();
  }
  return kExitOk;
}

}  // namespace syncline::tools
