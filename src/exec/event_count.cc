#include "exec/event_count.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace syncline::exec {

static_assert(sizeof(std::atomic<std::uint32_t>) == 4, "a futex word");

std::uint32_t EventCount::prepare() {
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  return count_.load(std::memory_order_seq_cst);
}

void EventCount::cancel() { sleepers_.fetch_sub(1, std::memory_order_seq_cst); }

void EventCount::wait(std::uint32_t ticket, Nanos timeout) {
  const timespec limit{timeout / kSecond, timeout % kSecond};
  ::syscall(SYS_futex, &count_, FUTEX_WAIT_PRIVATE, ticket, &limit, nullptr, 0);
  cancel();
}

void EventCount::notify() {
  if (!has_sleepers()) return;
  count_.fetch_add(1, std::memory_order_seq_cst);
  ::syscall(SYS_futex, &count_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace syncline::exec
