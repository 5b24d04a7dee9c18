// What each generator's schedule moves, in closed form. Pure, thread-safe.
//
// The formulas are written from the definition of the algorithms, not from the schedules: the tests
// hold one against the other for 1..33 ranks.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "plan/hosts.h"
#include "plan/schedule.h"

namespace syncline::plan {

// What one rank does in one instance; element counts are those of all instances together.
struct Traffic {
  std::uint64_t messages_sent = 0;
  std::uint64_t messages_received = 0;
  std::uint64_t elements_sent = 0;  // as elements of the tensor's type
  std::uint64_t elements_received = 0;
  std::uint64_t partials_sent = 0;  // elements, as partial results in the accumulate type
  std::uint64_t partials_received = 0;
  std::uint64_t combines = 0;     // recv_reduce and reduce steps
  std::uint64_t local_steps = 0;  // copy and reduce steps
  std::uint64_t steps() const { return messages_sent + messages_received + local_steps; }
  friend bool operator==(const Traffic&, const Traffic&) = default;
};

// Counted step by step. `count`: elements of the whole vector.
Traffic count_traffic(const Schedule& schedule, int rank, std::size_t count);

// The closed formula of a generator; unsupported where the generator is. Hierarchical ones need to
// know the hosts.
Result<Traffic> traffic_formula(std::string_view name, Collective kind, int n, int root, int rank,
                                std::size_t count, HostOf host_of = {});

}  // namespace syncline::plan
