#include "collective/plan_cache.h"

#include <algorithm>
#include <bit>

#include "collective/reproducible.h"
#include "kernels/reduce.h"
#include "plan/generators.h"
#include "plan/partition.h"

namespace syncline::collective {
namespace {

// Everything up to this size is one class: its plan is the same.
constexpr std::size_t kSmallestClassBytes = 256;
constexpr std::size_t kWindowMax = 16;

int size_class(std::size_t bytes) {
  return std::bit_width(std::max(bytes, kSmallestClassBytes) - 1);
}

}  // namespace

PlanCache::PlanCache(int rank, int size, plan::CostParams cost, Preferences preferences,
                     Staging staging, int aggregators)
    : rank_(rank),
      size_(size),
      cost_(cost),
      preferences_(std::move(preferences)),
      staging_(staging),
      aggregators_(aggregators) {}

Result<const Planned*> PlanCache::find(const Query& query) {
  const int bucket = size_class(query.count * size_of(query.type));
  const bool widens = kernels::accumulate_type(query.type) != query.type;
  const bool reproducible = query.reproducible && plan::is_reduction(query.kind);
  auto& quick = quick_[static_cast<std::size_t>(query.kind)]
                      [(widens ? 1 : 0) + (reproducible ? 2 : 0)][static_cast<std::size_t>(bucket)];
  const bool plain = query.root == 0 && query.schedule.empty();
  if (plain) {
    const Planned* found = quick.load(std::memory_order_acquire);
    if (found != nullptr) return found;
  }
  const Key key{query.kind, widens, bucket, query.root, std::string(query.schedule), reproducible};
  MutexLock lock(mutex_);
  auto found = planned_.find(key);
  if (found == planned_.end()) {
    auto made = make(query, std::size_t{1} << bucket);
    if (!made.ok()) return made.status();
    found = planned_.emplace(key, std::move(made).value()).first;
  }
  if (plain) quick.store(found->second.get(), std::memory_order_release);
  return found->second.get();
}

// The schedules that the call or the session names; none if it is left to the planner.
Result<std::vector<std::string_view>> PlanCache::asked_for(const Query& query) {
  using Names = std::vector<std::string_view>;
  const bool by_call = !query.schedule.empty();
  const std::string asked = by_call ? std::string(query.schedule) : preferences_.schedule;
  if (asked.empty()) return Names();
  const auto generators = plan::generators_named(asked);
  if (generators.empty()) {
    return Status(Code::kInvalidArgument,
                  "unknown schedule '" + asked + "'; known: " + plan::known_schedules());
  }
  Names able;
  for (const plan::Generator* generator : generators) {
    if (generator->supports(query.kind, size_, cost_.host_of)) able.push_back(generator->name);
  }
  if (able.empty()) {
    if (!by_call) return Names();  // a session-wide choice yields where it cannot run
    return Status(Code::kUnsupported, "schedule '" + asked + "' cannot run " +
                                          to_string(query.kind) + " over " + std::to_string(size_) +
                                          " ranks");
  }
  if (!query.reproducible || !plan::is_reduction(query.kind)) return able;
  Names admitted;
  for (const std::string_view name : able) {
    if (proof(query.kind, query.root, std::string(name)).ok()) admitted.push_back(name);
  }
  if (admitted.empty()) return proof(query.kind, query.root, std::string(able.front()));
  return admitted;
}

const Status& PlanCache::proof(Collective kind, int root, const std::string& name) {
  const auto key = std::tuple(kind, root, name);
  auto found = proofs_.find(key);
  if (found == proofs_.end()) {
    found = proofs_.emplace(key, admit_reproducible(name, kind, size_, root, cost_.host_of)).first;
  }
  return found->second;
}

// The fastest whose proof succeeds: schedules that are too large to prove drop out.
Result<plan::Choice> PlanCache::choose_admitted(plan::Request request) {
  if (!request.canonical_only) return plan::choose(request, cost_);
  for (;;) {
    auto choice = plan::choose(request, cost_);
    if (!choice.ok()) return choice;
    const Status& why = proof(request.kind, request.root, choice->name);
    if (why.ok()) return choice;
    std::vector<std::string_view> left;
    for (const std::string_view name : choice->tried) {
      if (name != choice->name) left.push_back(name);
    }
    if (left.empty()) return why;
    request.allowed = left;
  }
}

Result<plan::Choice> PlanCache::choose(const Query& query, std::size_t bytes) {
  plan::Request request{query.kind, size_, query.root, bytes, query.type};
  if (aggregators_ > 0 && query.kind != Collective::kAllReduce) {
    return Status(Code::kUnsupported,
                  "aggregators cannot run " + std::string(to_string(query.kind)));
  }
  if (aggregators_ > 0) return plan::fit(schedule(query, plan::kAggregated), request, cost_);
  const auto asked = asked_for(query);
  if (!asked.ok()) return asked.status();
  request.canonical_only = query.reproducible && plan::is_reduction(query.kind);
  request.allowed = asked.value();
  return choose_admitted(request);
}

plan::Schedule PlanCache::schedule(const Query& query, std::string_view name) const {
  if (aggregators_ > 0) return plan::make_aggregated(size_ - aggregators_, aggregators_);
  return plan::find_generator(name)->make(query.kind, size_, query.root, cost_.host_of);
}

Result<std::shared_ptr<const Planned>> PlanCache::make(const Query& query, std::size_t bytes) {
  auto choice = choose(query, bytes);
  if (!choice.ok()) return choice.status();
  auto planned = std::make_shared<Planned>();
  planned->program = exec::compile(schedule(query, choice->name), rank_);
  const bool preset = preferences_.segment_bytes > 0;
  planned->segment_bytes = std::min(staging_.segment_bytes_max,
                                    preset ? preferences_.segment_bytes : choice->segment_bytes);
  planned->window = static_cast<std::uint32_t>(
      std::clamp<std::size_t>(staging_.in_flight_bytes / planned->segment_bytes, 2, kWindowMax));
  planned->predicted_s = choice->predicted_s;
  planned->reason = choice->reason;
  return std::shared_ptr<const Planned>(std::move(planned));
}

Result<double> PlanCache::predict(const Query& query) {
  auto planned = find(query);
  if (!planned.ok()) return planned.status();
  return plan::predict_seconds(schedule(query, planned.value()->program->name),
                               query.count * size_of(query.type), query.type,
                               planned.value()->segment_bytes, cost_);
}

}  // namespace syncline::collective
