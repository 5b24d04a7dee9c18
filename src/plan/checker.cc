#include "plan/checker.h"

#include "plan/check/order.h"
#include "plan/check/program.h"
#include "plan/check/values.h"

namespace syncline::plan {

namespace {

Status prove(const Schedule& schedule, bool canonical) {
  const Result<Program> program = flatten(schedule);
  if (!program.ok()) return program.status();
  const Result<Order> order = Order::of(program.value());
  if (!order.ok()) return order.status();
  for (const bool in_is_out : {false, true}) {
    for (const bool acc_is_out : {false, true}) {
      Status status =
          check_values(program.value(), order.value(), {in_is_out, acc_is_out}, canonical);
      if (!status.ok()) return status;
    }
  }
  if (schedule.kind == Collective::kBarrier) {
    return check_barrier(program.value(), order.value());
  }
  return {};
}

}  // namespace

Status check(const Schedule& schedule) { return prove(schedule, schedule.canonical_sum); }

Status check_canonical(const Schedule& schedule) { return prove(schedule, true); }

}  // namespace syncline::plan
