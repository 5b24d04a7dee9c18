// The checks of `syncline doctor`. Each adds its findings; none needs a running job, none waits
// longer than two seconds.
#pragma once

#include <string_view>

#include "base/env.h"
#include "tools/doctor/finding.h"

namespace syncline::tools {

// This process's place in a job, the job key, Slurm's and torchrun's traps, unknown variable names.
void check_job(Findings& findings);
void check_environment_names(Findings& findings);
// Host name, interfaces, shared memory, cores, limits, instruction set, clock.
void check_network(Findings& findings);
void check_memory(Findings& findings);
void check_processor(Findings& findings);
// Debian packages, LibTorch, Python's torch; NVIDIA's driver, CUDA, cuDNN, NCCL.
void check_packages(Findings& findings);
void check_gpu(Findings& findings);

// True for the names of settings that Syncline or NCCL reads.
bool is_known_variable(std::string_view name);
// The known name that is closest, or "" if none is close.
std::string nearest_variable(std::string_view name);

// Value of `#define NAME value` in a header, "" if there is none.
std::string defined_in(const std::string& header, const std::string& name);

}  // namespace syncline::tools
