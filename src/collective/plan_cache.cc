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

std::string known_schedules() {
  std::string names;
  for (const plan::Generator& generator : plan::all_generators()) {
    if (!names.empty()) names += ", ";
    names += generator.name;
  }
  return names;
}

}  // namespace

PlanCache::PlanCache(int rank, int size, plan::CostParams cost, Preferences preferences,
                     Staging staging)
    : rank_(rank),
      size_(size),
      cost_(cost),
      preferences_(std::move(preferences)),
      staging_(staging) {}

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

// The schedule that the call or the session names; "" if it is left to the planner.
Result<std::string> PlanCache::asked_for(const Query& query) {
  const bool by_call = !query.schedule.empty();
  std::string asked = by_call ? std::string(query.schedule) : preferences_.schedule;
  if (asked.empty()) return asked;
  const plan::Generator* generator = plan::find_generator(asked);
  if (generator == nullptr) {
    return Status(Code::kInvalidArgument,
                  "unknown schedule '" + asked + "'; known: " + known_schedules());
  }
  if (!generator->supports(query.kind, size_)) {
    if (!by_call) return std::string();  // a session-wide choice yields where it cannot run
    return Status(Code::kUnsupported, "schedule '" + asked + "' cannot run " +
                                          to_string(query.kind) + " over " + std::to_string(size_) +
                                          " ranks");
  }
  if (query.reproducible && plan::is_reduction(query.kind)) {
    if (const Status& why = proof(query.kind, query.root, asked); !why.ok()) return why;
  }
  return asked;
}

const Status& PlanCache::proof(Collective kind, int root, const std::string& name) {
  const auto key = std::tuple(kind, root, name);
  auto found = proofs_.find(key);
  if (found == proofs_.end()) {
    found = proofs_.emplace(key, admit_reproducible(name, kind, size_, root)).first;
  }
  return found->second;
}

// The fastest whose proof succeeds: schedules that are too large to prove drop out.
Result<plan::Choice> PlanCache::choose(plan::Request request) {
  if (!request.canonical_only) return plan::choose(request, cost_);
  std::vector<std::string_view> left(request.allowed.begin(), request.allowed.end());
  if (left.empty()) {
    for (const plan::Generator& generator : plan::all_generators()) left.push_back(generator.name);
  }
  for (;;) {
    request.allowed = left;
    auto choice = plan::choose(request, cost_);
    if (!choice.ok()) return choice;
    const Status& why = proof(request.kind, request.root, choice->name);
    if (why.ok()) return choice;
    left.erase(std::find(left.begin(), left.end(), choice->name));
    if (left.empty()) return why;
  }
}

Result<std::shared_ptr<const Planned>> PlanCache::make(const Query& query, std::size_t bytes) {
  const Result<std::string> asked = asked_for(query);
  if (!asked.ok()) return asked.status();
  plan::Request request{query.kind, size_, query.root, bytes, query.type};
  request.canonical_only = query.reproducible && plan::is_reduction(query.kind);
  const std::string_view only[] = {asked.value()};
  if (!asked->empty()) request.allowed = only;
  auto choice = choose(request);
  if (!choice.ok()) return choice.status();
  auto planned = std::make_shared<Planned>();
  planned->program =
      exec::compile(plan::find_generator(choice->name)->make(query.kind, size_, query.root), rank_);
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
  const plan::Generator* generator = plan::find_generator(planned.value()->program->name);
  return plan::predict_seconds(generator->make(query.kind, size_, query.root),
                               query.count * size_of(query.type), query.type,
                               planned.value()->segment_bytes, cost_);
}

}  // namespace syncline::collective
