#include "tools/run/rank_env.h"

#include "fmt/format.h"

namespace syncline::tools {
namespace {

// "tcp://[::1]:4711" -> "::1"
std::string address_of(const std::string& rendezvous) {
  std::string text = rendezvous.substr(rendezvous.find("//") + 2);
  text = text.substr(0, text.rfind(':'));
  if (text.starts_with('[')) text = text.substr(1, text.size() - 2);
  return text;
}

// What all processes of the job find.
Variables job_environment(const AgentConfig& config, const RankPlace& place) {
  const std::string size = fmt::to_string(config.world_size);
  Variables v = {
      {"SYNCLINE_WORLD_SIZE", size},
      {"SYNCLINE_RUN_ID", config.run_id},
      {"SYNCLINE_RENDEZVOUS", place.rendezvous},
      {"WORLD_SIZE", size},
      {"MASTER_ADDR", address_of(place.rendezvous)},
      {"MASTER_PORT", fmt::to_string(place.master_port)},
      {"TORCHELASTIC_RUN_ID", config.run_id},
  };
  if (config.servers > 0) v.emplace_back("SYNCLINE_SERVERS", fmt::to_string(config.servers));
  if (place.key_fd >= 0) v.emplace_back("SYNCLINE_KEY_FD", fmt::to_string(place.key_fd));
  return v;
}

}  // namespace

Variables rank_environment(const AgentConfig& config, const RankPlace& place) {
  const std::string rank = fmt::to_string(config.first_rank + place.local_rank);
  const std::string local_rank = fmt::to_string(place.local_rank);
  const std::string local_size = fmt::to_string(config.ranks);
  Variables v = job_environment(config, place);
  const Variables own = {
      {"SYNCLINE_RANK", rank},
      {"SYNCLINE_LOCAL_RANK", local_rank},
      {"SYNCLINE_LOCAL_WORLD_SIZE", local_size},
      {"RANK", rank},
      {"LOCAL_RANK", local_rank},
      {"LOCAL_WORLD_SIZE", local_size},
      {"GROUP_RANK", fmt::to_string(config.host_index)},
      {"GROUP_WORLD_SIZE", fmt::to_string(config.rank_hosts)},
      {"ROLE_RANK", rank},
      {"ROLE_WORLD_SIZE", fmt::to_string(config.world_size)},
      {"ROLE_NAME", "default"},
      {"TORCHELASTIC_RESTART_COUNT", "0"},
      {"TORCHELASTIC_MAX_RESTARTS", "0"},
  };
  v.insert(v.end(), own.begin(), own.end());
  if (place.rendezvous_fd >= 0) {
    v.emplace_back("SYNCLINE_RENDEZVOUS_FD", fmt::to_string(place.rendezvous_fd));
  }
  if (place.flight_fd >= 0) v.emplace_back("SYNCLINE_FLIGHT_FD", fmt::to_string(place.flight_fd));
  if (!config.keep_omp_threads) v.emplace_back("OMP_NUM_THREADS", fmt::to_string(place.threads));
  v.insert(v.end(), config.variables.begin(), config.variables.end());
  return v;
}

Variables server_environment(const AgentConfig& config, const RankPlace& place, int server) {
  Variables v = job_environment(config, place);
  v.insert(v.end(), config.variables.begin(), config.variables.end());
  v.emplace_back("SYNCLINE_SERVER_ID", fmt::to_string(server));
  return v;
}

}  // namespace syncline::tools
