// EventCount: sleep until something changed. Thread-safe; no system call while nobody sleeps.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace syncline::exec {

class EventCount {
 public:
  // Use: ticket = prepare(); check the condition; wait(ticket) or, when it holds already, cancel().
  std::uint32_t prepare();
  void cancel();
  // Returns after notify(), after `timeout`, or early.
  void wait(std::uint32_t ticket, Nanos timeout);
  void notify();
  bool has_sleepers() const { return sleepers_.load(std::memory_order_seq_cst) != 0; }

 private:
  std::atomic<std::uint32_t> count_{0};
  std::atomic<std::uint32_t> sleepers_{0};
};

}  // namespace syncline::exec
