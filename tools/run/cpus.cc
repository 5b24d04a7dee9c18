#include "tools/run/cpus.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "fmt/format.h"
#include "tools/cli/units.h"

namespace syncline::tools {

std::vector<int> allowed_cores() {
  std::vector<int> cores;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof mask, &mask) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(static_cast<std::size_t>(core), &mask)) cores.push_back(core);
    }
  }
  if (cores.empty()) cores.push_back(0);
  return cores;
}

int usable_cores() {
  int cores = static_cast<int>(allowed_cores().size());
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double quota = 0;
  double period = 0;
  if (file >> quota >> period && quota > 0 && period > 0) {
    cores = std::min(cores, std::max(1, static_cast<int>(std::ceil(quota / period))));
  }
  return cores;
}

int threads_per_rank(int cores, int local_ranks) {
  return std::max(1, cores / std::max(1, local_ranks));
}

std::vector<int> parse_cpu_list(std::string_view text) {
  std::vector<int> cores;
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    const std::size_t dash = part.find('-');
    const auto low = parse_int(part.substr(0, dash), 0, CPU_SETSIZE, "core");
    const auto high = dash == std::string_view::npos
                          ? low
                          : parse_int(part.substr(dash + 1), 0, CPU_SETSIZE, "core");
    if (low.ok() && high.ok()) {
      for (int core = low.value(); core <= high.value(); ++core) cores.push_back(core);
    }
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  return cores;
}

Result<Binding> parse_binding(std::string_view text) {
  if (text == "none") return Binding::kNone;
  if (text == "core") return Binding::kCore;
  if (text == "numa") return Binding::kNuma;
  return Status(Code::kInvalidArgument,
                fmt::format("--bind-to '{}': write core, numa or none", text));
}

std::vector<int> cores_of_rank(Binding binding, int local_rank, int local_ranks,
                               const std::vector<int>& allowed,
                               const std::vector<std::vector<int>>& nodes) {
  if (binding == Binding::kNone || local_ranks <= 0) return {};
  if (binding == Binding::kCore) {
    const int share = static_cast<int>(allowed.size()) / local_ranks;
    if (share == 0) return {};
    const auto first = allowed.begin() + local_rank * share;
    return {first, first + share};
  }
  std::vector<std::vector<int>> usable;
  for (const std::vector<int>& node : nodes) {
    std::vector<int> both;
    std::set_intersection(node.begin(), node.end(), allowed.begin(), allowed.end(),
                          std::back_inserter(both));
    if (!both.empty()) usable.push_back(std::move(both));
  }
  if (usable.size() < 2) return {};
  const auto index =
      static_cast<std::size_t>(local_rank) * usable.size() / static_cast<std::size_t>(local_ranks);
  return usable[index];
}

std::vector<int> cores_of_server(int index, int servers, int ranks,
                                 const std::vector<int>& allowed) {
  const auto cores = static_cast<int>(allowed.size());
  if (servers < 2 || servers + ranks <= cores) return {};
  return {allowed[static_cast<std::size_t>(index % cores)]};
}

std::vector<std::vector<int>> numa_nodes() {
  std::vector<std::vector<int>> nodes;
  for (int node = 0;; ++node) {
    std::ifstream file(fmt::format("/sys/devices/system/node/node{}/cpulist", node));
    std::string text;
    if (!std::getline(file, text)) return nodes;
    nodes.push_back(parse_cpu_list(text));
  }
}

}  // namespace syncline::tools
