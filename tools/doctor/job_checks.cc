#include "cluster/key.h"
#include "cluster/rank_env.h"
#include "fmt/format.h"
#include "tools/doctor/checks.h"

namespace syncline::tools {
namespace {

void check_rank(Findings& findings) {
  const Result<cluster::RankEnv> found = cluster::discover_rank(env);
  if (!found.ok()) {
    findings.push_back({Level::kFail, "rank", found.status().message(),
                        "unset the variable named, or correct it"});
    return;
  }
  const cluster::RankEnv& rank = found.value();
  findings.push_back({Level::kOk, "rank",
                      fmt::format("source {}: {} of {}{}", rank.source, rank.name(),
                                  rank.server < 0 ? rank.world_size : rank.servers,
                                  rank.servers == 0 || rank.server >= 0
                                      ? ""
                                      : fmt::format(", with {} servers", rank.servers)),
                      ""});
  for (const std::string& warning : rank.warnings)
    findings.push_back({Level::kWarn, "rank", warning, ""});
}

void check_key(Findings& findings) {
  const Result<cluster::LoadedKey> loaded = cluster::load_job_key(env);
  if (!loaded.ok()) {
    findings.push_back(
        {Level::kFail, "job key", loaded.status().message(), "syncline key create --force"});
  } else if (loaded.value().key.absent()) {
    findings.push_back(
        {Level::kInfo, "job key",
         "none; `syncline run` makes its own, other launchers need one for ranks on several hosts",
         "syncline key create"});
  } else {
    findings.push_back({Level::kOk, "job key", fmt::format("from {}", loaded.value().source), ""});
  }
}

void check_slurm(Findings& findings) {
  const auto job = env("SLURM_JOB_ID");
  if (!job) return;
  if (env("SLURM_STEP_ID")) {
    findings.push_back(
        {Level::kOk, "slurm", fmt::format("job {}, step {}", *job, *env("SLURM_STEP_ID")), ""});
    return;
  }
  findings.push_back(
      {Level::kWarn, "slurm",
       fmt::format(
           "this shell belongs to job {} but to no step: a program started here is one rank "
           "alone, whatever SLURM_NTASKS says",
           *job),
       "srun ./train"});
}

}  // namespace

void check_job(Findings& findings) {
  check_rank(findings);
  check_key(findings);
  check_slurm(findings);
}

}  // namespace syncline::tools
