#include "collective/plan_cache.h"

#include <algorithm>
#include <bit>

#include "kernels/reduce.h"
#include "plan/generators.h"

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

PlanCache::PlanCache(int rank, int size, plan::CostParams cost, std::string forced, Staging staging)
    : rank_(rank), size_(size), cost_(cost), forced_(std::move(forced)), staging_(staging) {}

Result<const Planned*> PlanCache::find(const Query& query) {
  const int bucket = size_class(query.count * size_of(query.type));
  const bool widens = kernels::accumulate_type(query.type) != query.type;
  auto& quick = quick_[static_cast<std::size_t>(query.kind)][widens ? 1 : 0]
                      [static_cast<std::size_t>(bucket)];
  const bool plain = query.root == 0 && query.schedule.empty();
  if (plain) {
    const Planned* found = quick.load(std::memory_order_acquire);
    if (found != nullptr) return found;
  }
  const Key key{query.kind, widens, bucket, query.root, std::string(query.schedule)};
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

Result<std::shared_ptr<const Planned>> PlanCache::make(const Query& query,
                                                       std::size_t bytes) const {
  const std::string asked(query.schedule.empty() ? std::string_view(forced_) : query.schedule);
  plan::Request request{query.kind, size_, query.root, bytes, query.type};
  const std::string_view only[] = {asked};
  if (!asked.empty()) {
    const plan::Generator* generator = plan::find_generator(asked);
    if (generator == nullptr) {
      return Status(Code::kInvalidArgument,
                    "unknown schedule '" + asked + "'; known: " + known_schedules());
    }
    const bool supported = generator->supports(query.kind, size_);
    if (!supported && !query.schedule.empty()) {
      return Status(Code::kUnsupported, "schedule '" + asked + "' cannot run " +
                                            to_string(query.kind) + " over " +
                                            std::to_string(size_) + " ranks");
    }
    if (supported) request.allowed = only;  // a session-wide choice yields where it cannot run
  }
  auto choice = plan::choose(request, cost_);
  if (!choice.ok()) return choice.status();
  auto planned = std::make_shared<Planned>();
  planned->program =
      exec::compile(plan::find_generator(choice->name)->make(query.kind, size_, query.root), rank_);
  planned->segment_bytes = std::min(staging_.segment_bytes_max, choice->segment_bytes);
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
