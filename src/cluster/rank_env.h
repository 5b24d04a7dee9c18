// Rank discovery: which rank of which job this process is, from the environment that a launcher
// left.
//
// The first complete set wins: SYNCLINE_* > torchrun's > OMPI_COMM_WORLD_* > Slurm's step > PMI_* >
// a single process. Sets that disagree are settled by that order and reported in `warnings`: mpirun
// inside a Slurm allocation is normal, and Slurm's variables also live in shells that run no step.
// A half-given set is an error unless a later set is complete.
//
// A job may have servers beside its ranks. They have no rank; world sizes count ranks only.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "base/result.h"
#include "cluster/process_name.h"

namespace syncline::cluster {

inline constexpr int kWorldSizeMax = 65535;

struct RankEnv {
  int rank = 0;               // -1: a server
  int world_size = 1;         // workers only
  int servers = 0;            // of the job
  int server = -1;            // which of them this process is; -1: it is a worker
  bool aggregates = false;    // the servers hold no parameters, they only sum
  int local_rank = -1;        // -1: not told; follows from the hosts of the view
  int local_world_size = -1;  // -1: not told
  std::string source =
      "single";            // "SYNCLINE_*", "torchrun", "OMPI_*", "slurm step", "PMI_*", "single"
  std::string rendezvous;  // "tcp://host:port" or "file:/dir"; empty only for a world of one
  int rendezvous_fd = -1;  // rank 0 only: inherited socket that already listens there
  std::string run_id;      // empty: none; kept apart from other jobs only by the rendezvous address
  std::vector<std::string> warnings;  // one line each, for the log

  // Told by the launcher that all ranks run on this host. Nobody tells where servers run.
  bool one_host() const {
    return servers == 0 && (world_size == 1 || local_world_size == world_size);
  }
  // In the numbering of all processes (process_name.h).
  int processes() const { return world_size + servers; }
  int number() const { return server < 0 ? rank : world_size + server; }
  std::string name() const { return process_name(number(), world_size); }
};

// Variables, all read through `lookup`:
//   SYNCLINE_RANK, SYNCLINE_WORLD_SIZE, SYNCLINE_LOCAL_RANK, SYNCLINE_LOCAL_WORLD_SIZE; and,
//   whichever set wins: SYNCLINE_RENDEZVOUS (URI), SYNCLINE_RENDEZVOUS_FD, SYNCLINE_RUN_ID,
//   SYNCLINE_SERVERS, SYNCLINE_SERVERS_AGGREGATE (0 or 1). SYNCLINE_SERVER_ID makes the process a
//   server: of the sets it reads the world size only, of SYNCLINE_* or else torchrun's.
//
//   RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, TORCHELASTIC_RUN_ID; MASTER_ADDR and
//   MASTER_PORT (torchrun's and mpirun's jobs). With TORCHELASTIC_USE_AGENT_STORE=True torchrun's
//   agent listens on MASTER_PORT, so the rendezvous is MASTER_PORT + 1. SLURM_STEP_ID,
//   SLURM_PROCID, SLURM_STEP_NUM_TASKS (else SLURM_NTASKS), SLURM_LOCALID (else SLURM_GTIDS),
//   SLURM_NODEID, SLURM_STEP_TASKS_PER_NODE, SLURM_STEP_NODELIST, SLURM_JOB_ID.
//
// Without any rendezvous given: Slurm's is tcp://<first host of the step>:<slurm_port()>; jobs of
// Open MPI and of PMI launchers that run on one host meet in file:<local_rendezvous_dir()>.
// kInvalidArgument, one line that names the variable, for what is missing, no number or out of
// range.
Result<RankEnv> discover_rank(const EnvLookup& lookup);

// $XDG_RUNTIME_DIR/syncline or /tmp/syncline-<user id>.
std::string local_rendezvous_dir(const EnvLookup& lookup);

}  // namespace syncline::cluster
