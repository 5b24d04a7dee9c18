#include "collective/plan_cache.h"

#include <algorithm>
#include <bit>

#include "kernels/reduce.h"
#include "plan/generators.h"

namespace syncline::collective {
namespace {

// Everything up to this size is one class: its plan is the same.
constexpr std::size_t kSmallestClassBytes = 256;

int size_class(std::size_t bytes) { return std::bit_width(std::max(bytes, kSmallestClassBytes) - 1); }

std::string known_schedules() {
  std::string names;
  for (const plan::Generator& generator : plan::all_generators()) {
    if (!names.empty()) names += ", ";
    names += generator.name;
  }
  return names;
}

}  // namespace

PlanCache::PlanCache(int rank, int size, plan::CostParams cost, std::string forced,
                     std::size_t segment_bytes_max)
    : rank_(rank),
      size_(size),
      cost_(cost),
      forced_(std::move(forced)),
      segment_bytes_max_(segment_bytes_max) {}

Result<std::shared_ptr<const Planned>> PlanCache::find(const Query& query) {
  const std::size_t bytes = query.count * size_of(query.type);
  const Key key{query.kind, kernels::accumulate_type(query.type) != query.type, size_class(bytes),
                query.root, query.schedule};
  MutexLock lock(mutex_);
  const auto found = planned_.find(key);
  if (found != planned_.end()) return found->second;
  auto made = make(query, std::size_t{1} << size_class(bytes));
  if (made.ok()) planned_.emplace(key, made.value());
  return made;
}

Result<std::shared_ptr<const Planned>> PlanCache::make(const Query& query,
                                                       std::size_t bytes) const {
  std::string name = query.schedule.empty() ? forced_ : query.schedule;
  if (!name.empty()) {
    const plan::Generator* generator = plan::find_generator(name);
    if (generator == nullptr) {
      return Status(Code::kInvalidArgument,
                    "unknown schedule '" + name + "'; known: " + known_schedules());
    }
    if (!generator->supports(query.kind, size_)) {
      if (!query.schedule.empty()) {
        return Status(Code::kUnsupported, "schedule '" + name + "' cannot run " +
                                              to_string(query.kind) + " over " +
                                              std::to_string(size_) + " ranks");
      }
      name.clear();
    }
  }
  if (name.empty()) name = bytes <= 8192 || size_ == 1 ? "one_shot" : "two_shot";
  if (!plan::find_generator(name)->supports(query.kind, size_)) name = "ring";
  auto planned = std::make_shared<Planned>();
  const plan::Schedule schedule = plan::find_generator(name)->make(query.kind, size_, query.root);
  planned->program = exec::compile(schedule, rank_);
  planned->segment_bytes = std::min<std::size_t>(segment_bytes_max_, 128 << 10);
  return std::shared_ptr<const Planned>(std::move(planned));
}

Result<double> PlanCache::predict(const Query& query) {
  auto planned = find(query);
  if (!planned.ok()) return planned.status();
  return planned.value()->predicted_s;
}

}  // namespace syncline::collective
