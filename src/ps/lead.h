// Lead: how far a worker's payloads to one server may be ahead of the answers.
//
// A server answers when all workers' parts are there. Where a server's link is the bottleneck, a
// worker that runs ahead of the others takes from it what they need, and the answers come late: the
// link works in one direction only. So there a worker sends no more than it is answered, but for a
// lead that keeps the wire busy.
//
// Workers may push keys in different orders; then no answer comes until they have sent more. So
// when none has come for a while the lead doubles, and is as before once one comes.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/clock.h"

namespace syncline::ps {

// Externally synchronised.
class Lead {
 public:
  static constexpr std::size_t kBytes = 512 << 10;      // at least, over all servers
  static constexpr std::size_t kLongSlice = 128 << 10;  // above it

  explicit Lead(std::size_t bytes_min = kBytes) : bytes_min_(bytes_min) {}

  // Long slices are those of huge tensors: with one of them at a time the wire would rest.
  bool admits(std::size_t bytes) const {
    const std::size_t one_or_two = bytes > kLongSlice ? 2 * bytes : bytes;
    return unanswered_ + bytes <= std::max({bytes_min_, one_or_two, pace_, stretched_});
  }
  void send(std::size_t bytes, Nanos now) {
    if (unanswered_ == 0) moved_at_ = span_begun_ = now;
    unanswered_ += bytes;
  }
  void answer(std::size_t bytes, Nanos now) {
    unanswered_ -= bytes;
    stretched_ = 0;
    gap_ = std::max(now - moved_at_, gap_ - gap_ / 8);
    moved_at_ = now;
    answered_ += bytes;
    if (now - span_begun_ < kSpan) return;
    pace_ = static_cast<std::size_t>(static_cast<double>(answered_) * kSpan /
                                     static_cast<double>(now - span_begun_));
    answered_ = 0;
    span_begun_ = now;
  }
  // True where more may be sent than a moment ago.
  bool lose_patience(Nanos now) {
    const Nanos patience = std::clamp(kGaps * gap_, kPatienceMin, kPatienceMax);
    if (unanswered_ == 0 || now - moved_at_ < patience) return false;
    stretched_ = 2 * std::max({bytes_min_, pace_, stretched_});
    moved_at_ = now;
    return true;
  }

 private:
  static constexpr Nanos kSpan = 20 * kMillisecond;  // on fast links the lead is what it brings
  static constexpr Nanos kGaps = 4;
  static constexpr Nanos kPatienceMin = 5 * kMillisecond, kPatienceMax = 50 * kMillisecond;

  std::size_t bytes_min_;
  std::size_t unanswered_ = 0;
  std::size_t stretched_ = 0;  // by lost patience
  std::size_t pace_ = 0;       // answered in a span, lately
  std::size_t answered_ = 0;   // in this span
  Nanos span_begun_ = 0;
  Nanos moved_at_ = 0;  // an answer came, or patience ended
  Nanos gap_ = 0;       // between answers, lately at most
};

}  // namespace syncline::ps
