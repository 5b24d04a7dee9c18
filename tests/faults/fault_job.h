// A job of processes that reduces for ever, and what each rank saw when it ended.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <tuple>

#include "syncline/status.h"
#include "tests/harness/process_job.h"

namespace syncline::faults {

inline constexpr int kRanksMax = 8;

// What a rank tells the test through shared memory.
struct Report {
  std::atomic<int> rounds;  // finished all_reduces
  std::atomic<int> code;    // of the Status that ended the loop
  std::atomic<int> peer;
  std::atomic<int> next_code;    // of the call after that
  std::atomic<int> wrong;        // results that were not the sum
  std::atomic<std::int64_t> at;  // when it ended, on the monotonic clock, ns
  char text[512];
};

struct Board {
  Report ranks[kRanksMax];
  std::atomic<int> stop;  // the ranks end their loops by agreement
};

using Millis = std::chrono::milliseconds;

// Externally synchronised.
class FaultJob {
 public:
  // Every rank reduces `count` floats again and again until a call fails or end() is called.
  FaultJob(int ranks, const std::string& transport, std::size_t count,
           const SessionOptions& options = harness::test_options());

  harness::ProcessJob& processes() { return *job_; }
  const Report& report(int rank) const { return board_->ranks[rank]; }
  // False if some rank did not get so far within 30 s.
  bool await_rounds(int rounds) const;
  void end() { board_->stop = 1; }
  // Sends the signal and remembers when.
  void strike(int rank, int signal);
  Millis since_strike(int rank) const;  // when the rank's loop ended
  std::int64_t struck_at() const { return struck_at_; }

 private:
  harness::Shared<Board> board_;
  std::unique_ptr<harness::ProcessJob> job_;
  std::int64_t struck_at_ = 0;
};

std::int64_t now_ns();
// Polls until the condition holds; false after `limit`.
bool await(const std::function<bool()>& condition, Millis limit);
// Names in /dev/shm.
std::set<std::string> shared_memory_names();

// "shm_3" for tests over (transport, ranks).
template <class ParamInfo>
std::string transport_and_ranks(const ParamInfo& info) {
  return std::string(std::get<0>(info.param)) + "_" + std::to_string(std::get<1>(info.param));
}

}  // namespace syncline::faults
