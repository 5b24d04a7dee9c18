#include <algorithm>
#include <cstdio>
#include <iterator>
#include <utility>
#include <vector>

#include "plan/cost.h"
#include "plan/generators.h"
#include "plan/partition.h"

namespace syncline::plan {
namespace {

constexpr std::size_t kKiB = 1024;
// In order of preference: another one must be clearly better than those before it.
constexpr std::size_t kSegmentBytes[] = {128 * kKiB, 64 * kKiB, 256 * kKiB, 32 * kKiB};
constexpr double kClearlyBetter = 0.97;
// Generators that are slower than the fastest by this factor do not get other segment sizes tried.
constexpr double kHopeless = 1.5;

std::string three_digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value < 10 ? "%.1f" : "%.0f", value);
  return text;
}

std::string duration_text(double seconds) {
  if (seconds < 1e-3) return three_digits(seconds * 1e6) + " us";
  if (seconds < 1) return three_digits(seconds * 1e3) + " ms";
  return three_digits(seconds) + " s";
}

std::string size_text(std::size_t bytes) {
  static constexpr const char* kUnits[] = {" B", " KiB", " MiB", " GiB", " TiB"};
  std::size_t unit = 0;
  auto value = static_cast<double>(bytes);
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  const bool whole = value == static_cast<double>(static_cast<std::size_t>(value));
  return (whole ? std::to_string(static_cast<std::size_t>(value)) : three_digits(value)) +
         kUnits[unit];
}

bool has_hierarchy(const CostParams& params) {
  const auto hosts = ranks_by_host(params.host_of);
  return hosts.size() > 1 && hosts.size() < params.host_of.size();
}

bool is_tried(const Generator& g, const CostParams& params) {
  switch (g.tried) {
    case Tried::kAlways:
      return true;
    case Tried::kOverPorts:
      return params.beta_s_per_byte > 0;
    case Tried::kHierarchies:
      return has_hierarchy(params);
    case Tried::kOnRequest:
      break;
  }
  return false;
}

bool is_allowed(const Request& r, const Generator& g, const CostParams& params) {
  if (r.allowed.empty()) return is_tried(g, params);
  return std::find(r.allowed.begin(), r.allowed.end(), g.name) != r.allowed.end();
}

bool needs_canonical(const Request& r) { return r.canonical_only && is_reduction(r.kind); }

std::string names_that_do(const Request& r) {
  std::string names;
  for (const Generator& g : all_generators()) {
    if (g.hierarchy != nullptr || !g.supports(r.kind, r.ranks)) continue;
    if (needs_canonical(r) && !g.make(r.kind, r.ranks, r.root).canonical_sum) continue;
    names += (names.empty() ? "" : ", ") + std::string(g.name);
  }
  return names;
}

Status check_request(const Request& r, const CostParams& params) {
  if (!params.host_of.empty() && params.host_of.size() != static_cast<std::size_t>(r.ranks)) {
    return Status(Code::kInvalidArgument, "the hosts of " + std::to_string(params.host_of.size()) +
                                              " ranks are known, not of " +
                                              std::to_string(r.ranks));
  }
  if (r.ranks < 1)
    return Status(Code::kInvalidArgument, "choosing an algorithm needs at least one rank");
  if (r.root < 0 || r.root >= r.ranks) {
    return Status(Code::kInvalidArgument, "root " + std::to_string(r.root) + " is not one of " +
                                              std::to_string(r.ranks) + " ranks");
  }
  for (const std::string_view name : r.allowed) {
    if (find_generator(name) != nullptr) continue;
    return Status(Code::kInvalidArgument,
                  "unknown algorithm '" + std::string(name) + "'; choose from " + names_that_do(r));
  }
  return {};
}

struct Candidate {
  Schedule schedule;
  Choice choice;
};

Choice first_guess(const Schedule& s, const Request& r, const CostParams& params) {
  return {s.name,
          kSegmentBytes[0],
          predict_seconds(s, r.bytes, r.dtype, kSegmentBytes[0], params),
          {},
          {}};
}

// Tries the other segment sizes. Sizes that cut the vector into as many segments differ in nothing.
void improve(Candidate& candidate, const Request& r, const CostParams& params) {
  const Schedule& s = candidate.schedule;
  const auto blocks = static_cast<std::size_t>(block_count(r.kind, s.size()));
  const std::size_t count = r.bytes / size_of(r.dtype) / blocks * blocks;
  std::vector<std::size_t> tried;
  for (const std::size_t bytes : kSegmentBytes) {
    const std::size_t segments = segments_of(s, count, r.dtype, bytes);
    const bool known = std::find(tried.begin(), tried.end(), segments) != tried.end();
    tried.push_back(segments);
    if (known || bytes == kSegmentBytes[0]) continue;
    const double seconds = predict_seconds(s, r.bytes, r.dtype, bytes, params);
    if (seconds >= candidate.choice.predicted_s * kClearlyBetter) continue;
    candidate.choice.segment_bytes = bytes;
    candidate.choice.predicted_s = seconds;
  }
}

bool is_faster(const Candidate& x, const Candidate& y) {
  return x.choice.predicted_s < y.choice.predicted_s;
}

}  // namespace

std::span<const std::size_t> candidate_segment_bytes() { return kSegmentBytes; }

Choice fit(const Schedule& schedule, const Request& request, const CostParams& params) {
  Candidate candidate{schedule, first_guess(schedule, request, params)};
  improve(candidate, request, params);
  candidate.choice.reason = schedule.name + " " + duration_text(candidate.choice.predicted_s) +
                            " at " + size_text(request.bytes) + " over " +
                            std::to_string(request.ranks) + " ranks";
  return std::move(candidate.choice);
}

Result<Choice> choose(const Request& request, const CostParams& params) {
  if (Status status = check_request(request, params); !status.ok()) return status;
  std::vector<Candidate> candidates;
  for (const Generator& g : all_generators()) {
    if (!is_allowed(request, g, params)) continue;
    if (!g.supports(request.kind, request.ranks, params.host_of)) continue;
    Schedule s = g.make(request.kind, request.ranks, request.root, params.host_of);
    if (needs_canonical(request) && !s.canonical_sum) continue;
    Choice guess = first_guess(s, request, params);
    candidates.push_back({std::move(s), std::move(guess)});
  }
  const std::string ranks =
      std::to_string(request.ranks) + (request.ranks == 1 ? " rank" : " ranks");
  if (candidates.empty()) {
    return Status(Code::kUnsupported, std::string("none of the allowed algorithms can do a ") +
                                          (request.canonical_only ? "reproducible " : "") +
                                          to_string(request.kind) + " over " + ranks +
                                          "; allow one of " + names_that_do(request));
  }
  const double fastest =
      std::min_element(candidates.begin(), candidates.end(), is_faster)->choice.predicted_s;
  for (Candidate& candidate : candidates) {
    if (candidate.choice.predicted_s <= fastest * kHopeless) improve(candidate, request, params);
  }
  std::stable_sort(candidates.begin(), candidates.end(), is_faster);
  Choice best = candidates.front().choice;
  for (const auto& [schedule, choice] : candidates) {
    best.tried.push_back(find_generator(choice.name)->name);
    best.reason +=
        (best.reason.empty() ? "" : " < ") + choice.name + " " + duration_text(choice.predicted_s);
  }
  best.reason += " at " + size_text(request.bytes) + " over " + ranks;
  return best;
}

}  // namespace syncline::plan
