// Reading Slurm's compressed notations. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace syncline::cluster {

inline constexpr std::size_t kSlurmEntriesMax = 65536;

// "2(x3),1" -> {2, 2, 2, 1}: tasks of each host of the step.
Result<std::vector<int>> expand_tasks_per_node(std::string_view text);

// "n[01-03,07],gpu-a" -> {n01, n02, n03, n07, gpu-a}. Zero padding is kept; several brackets in one
// name are expanded left to right; more than kSlurmEntriesMax names are refused.
Result<std::vector<std::string>> expand_nodelist(std::string_view text);

// Rendezvous port of a step: 20000 + (16 * job + step) mod 12000. That lies below the kernel's
// ephemeral ports (32768 and up), and two steps of one job never share it.
std::uint16_t slurm_port(std::uint64_t job_id, std::uint64_t step_id);

}  // namespace syncline::cluster
