// The simulator: seeded jobs in virtual time.
//
//   sim --seeds FIRST-LAST      runs them all; the first violation ends with 1 and its seed
//   sim --seed N                runs one and prints what happens
//   sim --store-seeds FIRST-LAST, --store-seed N   the same of jobs with a key-value store
//   sim --planted [NAME]        plants each known bug (or one): each must be found within 10,000
//                               seeds
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/planted.h"
#include "tests/harness/resnet50.h"
#include "tests/sim/store_steps.h"
#include "tests/sim/store_world.h"

namespace {

using syncline::sim::Outcome;

constexpr std::array kPlanted = {"ack_off_by_one",
                                 "resume_off_by_one",
                                 "no_duplicate_check",
                                 "no_payload_check",
                                 "endless_patience",
                                 "early_eviction",
                                 "acks_ignored",
                                 "frames_die_with_the_rail",
                                 "deaf_to_requests",
                                 "window_ignored",
                                 "order_ignored",
                                 "any_segment",
                                 "added_twice",
                                 "input_overwritten",
                                 "death_unreported",
                                 "fingerprint_ignored",
                                 "early_frames_dropped",
                                 "nobody_told",
                                 "table_too_early",
                                 "start_too_early",
                                 "twin_accepted",
                                 "stale_member_kept",
                                 "rendezvous_without_end",
                                 "repeats_believed",
                                 "mesh_takes_anyone",
                                 "heals_in_the_mesh",
                                 "absent_unprobed",
                                 "run_ids_ignored",

                                 "break_is_final"};
// In the store: found by its jobs.
constexpr std::array kPlantedInStore = {
    "bound_off_by_one",   "own_push_unseen",         "closes_without_payloads",
    "refused_push_taken", "dead_worker_counts",      "flush_waits_for_nothing",
    "push_applied_twice", "rounds_skipped",          "clock_overtakes",
    "endless_patience",   "sum_in_order_of_arrival", "answers_change",
    "norms_of_one_slice", "silent_slices",           "relay_clock_early",
    "relay_answers_stale"};
constexpr std::uint64_t kPlantedSeeds = 10'000;

// One sort of job.
struct Sort {
  const char* option;  // that replays a seed
  Outcome (*run)(std::uint64_t seed, std::FILE* trace);
  std::string (*describe)(std::uint64_t seed);
};

Outcome run_job(std::uint64_t seed, std::FILE* trace) {
  return syncline::sim::run(syncline::sim::scenario_of(seed), trace);
}
std::string describe_job(std::uint64_t seed) {
  return syncline::sim::describe(syncline::sim::scenario_of(seed));
}
Outcome run_store(std::uint64_t seed, std::FILE* trace) {
  return syncline::sim::run(syncline::sim::store_scenario_of(seed), trace);
}
std::string describe_store(std::uint64_t seed) {
  return syncline::sim::describe(syncline::sim::store_scenario_of(seed));
}
constexpr Sort kJobs{"--seed", run_job, describe_job};
constexpr Sort kStores{"--store-seed", run_store, describe_store};

struct Totals {
  std::uint64_t resumes = 0, duplicates = 0, damaged = 0, repeated = 0, done = 0, failed = 0;
  std::uint64_t started = 0, joins_failed = 0, restarts = 0;
  void add(const Outcome& outcome) {
    resumes += outcome.resumes;
    duplicates += outcome.duplicates;
    damaged += outcome.damaged;
    repeated += outcome.bytes_repeated;
    done += outcome.calls_done;
    failed += outcome.calls_failed;
    started += outcome.jobs_started;
    joins_failed += outcome.joins_failed;
    restarts += outcome.restarts;
  }
};

// False: a violation, which is printed.
bool run_all(const Sort& sort, std::uint64_t first, std::uint64_t last, Totals& totals) {
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    const Outcome outcome = sort.run(seed, nullptr);
    totals.add(outcome);
    if (!outcome.violation.empty()) {
      std::printf("%s\nviolation: %s\nreplay: ./dev sim %s %llu\n", sort.describe(seed).c_str(),
                  outcome.violation.c_str(), sort.option, static_cast<unsigned long long>(seed));
      return false;
    }
    // Replays must be exact, or a failure could not be looked at.
    if (seed % 97 == 0 && sort.run(seed, nullptr).digest != outcome.digest) {
      std::printf("seed %llu runs differently the second time\n",
                  static_cast<unsigned long long>(seed));
      return false;
    }
  }
  return true;
}

int run_stores(std::uint64_t first, std::uint64_t last) {
  const auto begin = std::chrono::steady_clock::now();
  Totals totals;
  if (!run_all(kStores, first, last, totals)) return 1;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::printf(
      "%llu seeds of stores without violation in %.1f s: %llu pulls checked, %llu late pushes "
      "refused, %llu workers died\n",
      static_cast<unsigned long long>(last - first + 1), took.count(),
      static_cast<unsigned long long>(totals.done), static_cast<unsigned long long>(totals.failed),
      static_cast<unsigned long long>(totals.restarts));
  const bool met =
      last - first < 50 || (totals.done > 0 && totals.failed > 0 && totals.restarts > 0);
  if (!met) std::printf("but some branch was never met\n");
  return met ? 0 : 1;
}

int run_seeds(std::uint64_t first, std::uint64_t last) {
  const auto begin = std::chrono::steady_clock::now();
  Totals totals;
  if (!run_all(kJobs, first, last, totals)) return 1;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::printf(
      "%llu seeds without violation in %.1f s: %llu jobs started, %llu joins failed as they must, "
      "%llu ranks started again; %llu calls done, %llu failed as they must; "
      "%llu resumes, %llu damaged and %llu repeated frames dropped, %llu bytes sent again\n",
      static_cast<unsigned long long>(last - first + 1), took.count(),
      static_cast<unsigned long long>(totals.started),
      static_cast<unsigned long long>(totals.joins_failed),
      static_cast<unsigned long long>(totals.restarts),
      static_cast<unsigned long long>(totals.done), static_cast<unsigned long long>(totals.failed),
      static_cast<unsigned long long>(totals.resumes),
      static_cast<unsigned long long>(totals.damaged),
      static_cast<unsigned long long>(totals.duplicates),
      static_cast<unsigned long long>(totals.repeated));
  // Rare branches must be met, not hoped for.
  const bool met =
      last - first < 100 || (totals.resumes > 0 && totals.duplicates > 0 && totals.damaged > 0 &&
                             totals.failed > 0 && totals.joins_failed > 0 && totals.restarts > 0);
  if (!met) std::printf("but some branch was never met\n");
  return met ? 0 : 1;
}

// In a process of its own: a planted bug may well end in an assertion or a fault.
bool finds([[maybe_unused]] const char* bug, const Sort& sort, std::uint64_t first,
           std::uint64_t last) {
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
#ifdef SYNCLINE_PLANTED_BUGS
    syncline::planted::active = bug;
#endif
    if (std::freopen("/dev/null", "w", stderr) == nullptr) ::_exit(9);
    ::alarm(600);  // a bug may spin for ever; that is not counted as found
    for (std::uint64_t seed = first; seed <= last; ++seed) {
      if (!sort.run(seed, nullptr).violation.empty()) ::_exit(1);
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return WTERMSIG(status) != SIGALRM;
  return WEXITSTATUS(status) != 0;
}

int find_planted(const Sort& sort, std::span<const char* const> bugs, const char* only) {
  int missed = 0;
  for (const char* bug : bugs) {
    if (only != nullptr && std::strcmp(only, bug) != 0) continue;
    std::uint64_t first = 1;
    std::uint64_t span = 1;
    bool found = false;
    while (first <= kPlantedSeeds && !found) {
      found = finds(bug, sort, first, std::min(first + span - 1, kPlantedSeeds));
      if (found) break;
      first += span;
      span = std::min<std::uint64_t>(2 * span, 500);
    }
    std::printf("%-26s %s seed %llu\n", bug,
                found ? "found, at the latest with" : "NOT FOUND up to",
                static_cast<unsigned long long>(std::min(first + span - 1, kPlantedSeeds)));
    if (!found) ++missed;
  }
  return missed;
}

// Case PS-11: ResNet-50 and one key of 400 MB, `divisor` times smaller, over 1 Gbit/s as many times
// slower.
int run_steps(std::size_t divisor) {
  bool fine = true;
  double before = 0;
  std::printf("4 workers, ResNet-50 and a key of 400 MB, 1 Gbit/s; all divided by %zu\n", divisor);
  for (const int servers : {1, 2, 4, 8}) {
    syncline::sim::StepsPlan plan;
    plan.workers = 4;
    plan.servers = servers;
    plan.counts = syncline::harness::resnet50_counts();
    plan.counts.push_back(100'000'000);
    for (std::size_t& count : plan.counts) count = std::max<std::size_t>(count / divisor, 1);
    plan.bytes_per_ms = 125'000 / static_cast<std::int64_t>(divisor);
    plan.latency = 50 * syncline::kMicrosecond;
    const auto outcome = run(plan);
    if (!outcome.problem.empty()) {
      std::printf("%d servers: %s\n", servers, outcome.problem.c_str());
      return 1;
    }
    const double took = outcome.seconds.back();
    std::printf("%d servers: %.3f s, predicted %.3f s, bytes by server max/mean %.3f\n", servers,
                took, outcome.predicted_seconds, outcome.max_over_mean);
    fine = fine && outcome.max_over_mean <= 1.15 && (before == 0 || took <= 1.02 * before) &&
           std::abs(took / outcome.predicted_seconds - 1) <= 0.25;
    before = took;
  }
  return fine ? 0 : 1;
}

int usage() {
  std::fprintf(stderr,
               "usage: sim --seeds FIRST-LAST | --seed N | --store-seeds FIRST-LAST | "
               "--store-seed N | --store-steps DIVISOR | --planted [NAME]\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  if (mode == "--planted") {
    const char* const only = argc > 2 ? argv[2] : nullptr;
    const int missed =
        find_planted(kJobs, kPlanted, only) + find_planted(kStores, kPlantedInStore, only);
    return missed == 0 ? 0 : 1;
  }
  if (argc != 3) return usage();
  char* rest = nullptr;
  const std::uint64_t first = std::strtoull(argv[2], &rest, 10);
  if (mode == "--store-steps")
    return first == 0 ? usage() : run_steps(static_cast<std::size_t>(first));
  for (const Sort& sort : {kJobs, kStores}) {
    if (mode != sort.option) continue;
    const Outcome outcome = sort.run(first, stdout);
    std::printf("%s\n", outcome.violation.empty() ? "no violation" : outcome.violation.c_str());
    return outcome.violation.empty() ? 0 : 1;
  }
  if (*rest != '-') return usage();
  const std::uint64_t last = std::strtoull(rest + 1, nullptr, 10);
  if (mode == "--seeds") return run_seeds(first, last);
  if (mode == "--store-seeds") return run_stores(first, last);
  return usage();
}
