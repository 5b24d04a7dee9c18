#include "cluster/rank_env.h"

#include <unistd.h>

#include <charconv>
#include <optional>

#include "cluster/slurm.h"

namespace syncline::cluster {
namespace {

Status invalid(std::string message) { return Status(Code::kInvalidArgument, std::move(message)); }

// Reads numbers out of the environment and keeps the first error.
class Reader {
 public:
  explicit Reader(const EnvLookup& lookup) : lookup_(lookup) {}

  std::optional<std::string> text(const std::string& name) const {
    auto value = lookup_(name);
    if (value && value->empty()) return std::nullopt;
    return value;
  }
  bool has(const std::string& name) const { return text(name).has_value(); }

  std::optional<std::int64_t> number(const std::string& name, std::int64_t low, std::int64_t high) {
    const auto value = text(name);
    if (!value) return std::nullopt;
    std::int64_t result = 0;
    const char* end = value->data() + value->size();
    const auto [stop, error] = std::from_chars(value->data(), end, result);
    if (error != std::errc() || stop != end) {
      fail(name + "='" + *value + "' is not a number");
      return std::nullopt;
    }
    if (result < low || result > high) {
      fail(name + "=" + *value + " is out of range " + std::to_string(low) + ".." +
           std::to_string(high));
      return std::nullopt;
    }
    return result;
  }

  void fail(std::string message) {
    if (status_.ok()) status_ = invalid(std::move(message));
  }
  const Status& status() const { return status_; }

 private:
  const EnvLookup& lookup_;
  Status status_;
};

struct Names {
  const char* source;
  const char* rank;
  const char* world_size;
  const char* local_rank;
  const char* local_world_size;
};

constexpr Names kOwn{"SYNCLINE_*", "SYNCLINE_RANK", "SYNCLINE_WORLD_SIZE", "SYNCLINE_LOCAL_RANK",
                     "SYNCLINE_LOCAL_WORLD_SIZE"};
constexpr Names kTorchrun{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr Names kOmpi{"OMPI_*", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                      "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Names kPmi{"PMI_*", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};

void read_local(Reader& reader, const Names& names, RankEnv& out) {
  if (const auto size = reader.number(names.local_world_size, 1, out.world_size)) {
    out.local_world_size = static_cast<int>(*size);
  }
  const int limit = out.local_world_size > 0 ? out.local_world_size : out.world_size;
  if (const auto rank = reader.number(names.local_rank, 0, limit - 1)) {
    out.local_rank = static_cast<int>(*rank);
  }
}

// Precondition: both variables are there.
RankEnv read_set(Reader& reader, const Names& names) {
  RankEnv out;
  out.source = names.source;
  const auto size = reader.number(names.world_size, 1, kWorldSizeMax);
  if (!size) return out;
  out.world_size = static_cast<int>(*size);
  const auto rank = reader.number(names.rank, 0, out.world_size - 1);
  if (!rank) return out;
  out.rank = static_cast<int>(*rank);
  read_local(reader, names, out);
  return out;
}

bool complete(const Reader& reader, const Names& names) {
  return reader.has(names.rank) && reader.has(names.world_size);
}

// The name of the missing half, or empty when the set is whole or absent.
std::string missing_half(const Reader& reader, const Names& names) {
  const bool rank = reader.has(names.rank);
  const bool size = reader.has(names.world_size);
  if (rank == size) return "";
  const std::string given = rank ? names.rank : names.world_size;
  const std::string missing = rank ? names.world_size : names.rank;
  return given + " is set but " + missing + " is not";
}

// Slurm numbers its batch, interactive and other pseudo steps from 0xfffffff0 on: shells, not
// tasks.
std::optional<std::uint64_t> slurm_step(Reader& reader) {
  const char* name = reader.has("SLURM_STEP_ID") ? "SLURM_STEP_ID" : "SLURM_STEPID";
  const auto step = reader.number(name, 0, 0xffffffff);
  if (!step || *step >= 0xfffffff0) return std::nullopt;
  return static_cast<std::uint64_t>(*step);
}

void read_slurm_local_size(Reader& reader, RankEnv& out) {
  const auto tasks = reader.text("SLURM_STEP_TASKS_PER_NODE");
  const auto node = reader.number("SLURM_NODEID", 0, kWorldSizeMax);
  if (!tasks) return;
  const auto counts = expand_tasks_per_node(*tasks);
  if (!counts.ok()) return reader.fail("SLURM_STEP_TASKS_PER_NODE: " + counts.status().message());
  const auto& list = counts.value();
  if (!node && list.size() != 1) return;
  const auto index = static_cast<std::size_t>(node.value_or(0));
  if (index >= list.size()) {
    return reader.fail("SLURM_NODEID=" + std::to_string(index) + " is beyond the " +
                       std::to_string(list.size()) + " hosts of SLURM_STEP_TASKS_PER_NODE='" +
                       *tasks + "'");
  }
  out.local_world_size = list[index];
}

// SLURM_GTIDS lists the ranks of this host in local order.
void read_slurm_local_rank(Reader& reader, RankEnv& out) {
  if (const auto local = reader.number("SLURM_LOCALID", 0, out.world_size - 1)) {
    out.local_rank = static_cast<int>(*local);
    return;
  }
  if (out.local_world_size == out.world_size) {
    out.local_rank = out.rank;
    return;
  }
  const auto ids = reader.text("SLURM_GTIDS");
  if (!ids) {
    return reader.fail(
        "SLURM_LOCALID is not set and neither SLURM_GTIDS nor a one-host step tells it; start the "
        "ranks with srun or set SYNCLINE_RANK, SYNCLINE_WORLD_SIZE and SYNCLINE_LOCAL_RANK");
  }
  int index = 0;
  for (std::size_t begin = 0; begin <= ids->size(); ++index) {
    const auto comma = std::min(ids->find(',', begin), ids->size());
    if (ids->substr(begin, comma - begin) == std::to_string(out.rank)) {
      out.local_rank = index;
      return;
    }
    begin = comma + 1;
  }
  reader.fail("SLURM_GTIDS='" + *ids + "' does not list SLURM_PROCID=" + std::to_string(out.rank));
}

RankEnv read_slurm(Reader& reader) {
  RankEnv out;
  out.source = "slurm step";
  const char* size_name =
      reader.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  if (!reader.has(size_name)) {
    reader.fail("SLURM_STEP_ID is set but SLURM_STEP_NUM_TASKS is not");
    return out;
  }
  const auto size = reader.number(size_name, 1, kWorldSizeMax);
  if (!size) return out;
  out.world_size = static_cast<int>(*size);
  const auto rank = reader.number("SLURM_PROCID", 0, out.world_size - 1);
  if (!rank) {
    reader.fail("SLURM_STEP_ID is set but SLURM_PROCID is not");
    return out;
  }
  out.rank = static_cast<int>(*rank);
  read_slurm_local_size(reader, out);
  if (reader.status().ok()) read_slurm_local_rank(reader, out);
  return out;
}

std::string slurm_rendezvous(Reader& reader) {
  const char* list_name =
      reader.has("SLURM_STEP_NODELIST") ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST";
  const auto list = reader.text(list_name);
  const auto job =
      reader.number(reader.has("SLURM_JOB_ID") ? "SLURM_JOB_ID" : "SLURM_JOBID", 0, INT64_MAX / 32);
  const auto step = slurm_step(reader);
  if (!list || !job || !step) {
    reader.fail(std::string("the slurm: rendezvous needs a step with ") +
                (!list  ? "SLURM_STEP_NODELIST"
                 : !job ? "SLURM_JOB_ID"
                        : "SLURM_STEP_ID") +
                "; start the ranks with srun or set SYNCLINE_RENDEZVOUS=tcp://host:port");
    return "";
  }
  const auto hosts = expand_nodelist(*list);
  if (!hosts.ok()) {
    reader.fail(std::string(list_name) + ": " + hosts.status().message());
    return "";
  }
  return "tcp://" + hosts.value().front() + ":" +
         std::to_string(slurm_port(static_cast<std::uint64_t>(*job), *step));
}

std::string master_rendezvous(Reader& reader) {
  const auto host = reader.text("MASTER_ADDR");
  auto port = reader.number("MASTER_PORT", 1, 65535);
  if (!host || !port) return "";
  const auto agent = reader.text("TORCHELASTIC_USE_AGENT_STORE");
  if (agent && (*agent == "True" || *agent == "true" || *agent == "1")) {
    port = *port < 65535 ? *port + 1 : *port - 1;
  }
  const bool bare_ipv6 = host->find(':') != std::string::npos && host->front() != '[';
  return "tcp://" + (bare_ipv6 ? "[" + *host + "]" : *host) + ":" + std::to_string(*port);
}

// Ranks of one mpirun on one host share its namespace name or their parent.
void use_local_directory(Reader& reader, const EnvLookup& lookup, RankEnv& out) {
  out.rendezvous = "file:" + local_rendezvous_dir(lookup);
  if (!out.run_id.empty()) return;
  for (const char* name : {"PMIX_NAMESPACE", "OMPI_MCA_orte_ess_jobid", "PMI_JOBID"}) {
    if (const auto id = reader.text(name)) {
      out.run_id = out.source.substr(0, out.source.find('_')) + "-" + *id;
      return;
    }
  }
  out.run_id = "parent-" + std::to_string(getppid());
}

void find_rendezvous(Reader& reader, const EnvLookup& lookup, RankEnv& out) {
  if (const auto id = reader.text("SYNCLINE_RUN_ID")) out.run_id = *id;
  if (out.run_id.empty() && out.source == kTorchrun.source) {
    const auto id = reader.text("TORCHELASTIC_RUN_ID");
    if (id && *id != "none") out.run_id = *id;  // torchrun's default is the word "none"
  }
  if (out.rank == 0) {
    if (const auto fd = reader.number("SYNCLINE_RENDEZVOUS_FD", 0, INT32_MAX)) {
      out.rendezvous_fd = static_cast<int>(*fd);
    }
  }
  if (out.processes() == 1) return;
  if (const auto uri = reader.text("SYNCLINE_RENDEZVOUS")) {
    out.rendezvous = *uri == "slurm:" ? slurm_rendezvous(reader) : *uri;
  } else if (out.source == "slurm step") {
    out.rendezvous = slurm_rendezvous(reader);
    if (out.run_id.empty()) {
      out.run_id = "slurm-" + reader.text("SLURM_JOB_ID").value_or("0") + "." +
                   std::to_string(slurm_step(reader).value_or(0));
    }
  } else {
    out.rendezvous = master_rendezvous(reader);
  }
  if (!out.rendezvous.empty() || !reader.status().ok()) return;
  if (out.source == kTorchrun.source) {
    return reader.fail(std::string(reader.has("MASTER_ADDR") ? "MASTER_PORT" : "MASTER_ADDR") +
                       " is not set: ranks of " + std::to_string(out.processes()) +
                       " processes do not know where to meet");
  }
  if (out.source != kOwn.source && out.one_host()) return use_local_directory(reader, lookup, out);
  reader.fail(
      "SYNCLINE_RENDEZVOUS is not set: " + out.name() + " of " +
      std::to_string(out.server < 0 ? out.world_size : out.servers) + " (from " + out.source +
      ") does not know where to meet; set SYNCLINE_RENDEZVOUS=tcp://<host of rank 0>:<port> "
      "for every process");
}

void warn_of_other(const Reader& reader, const Names& names, RankEnv& out) {
  if (out.source == names.source || !complete(reader, names)) return;
  const std::string rank = *reader.text(names.rank);
  const std::string size = *reader.text(names.world_size);
  if (rank == std::to_string(out.rank) && size == std::to_string(out.world_size)) return;
  out.warnings.push_back("rank " + std::to_string(out.rank) + " of " +
                         std::to_string(out.world_size) + " is taken from " + out.source + "; " +
                         names.rank + "=" + rank + " and " + names.world_size + "=" + size +
                         " are ignored");
}

constexpr Names kSlurm{"slurm step", "SLURM_PROCID", "SLURM_NTASKS", "", ""};

RankEnv read_first_complete(Reader& reader) {
  if (complete(reader, kOwn)) return read_set(reader, kOwn);
  if (const auto half = missing_half(reader, kOwn); !half.empty()) {
    reader.fail(half);
    return {};
  }
  if (complete(reader, kTorchrun)) return read_set(reader, kTorchrun);
  if (complete(reader, kOmpi)) return read_set(reader, kOmpi);
  if (slurm_step(reader)) return read_slurm(reader);
  if (complete(reader, kPmi)) return read_set(reader, kPmi);
  if (const auto half = missing_half(reader, kTorchrun); !half.empty()) {
    reader.fail(half + "; unset it to run a single process");
  }
  RankEnv single;
  single.local_rank = 0;
  single.local_world_size = 1;
  for (const Names& names : {kOmpi, kPmi}) {
    if (const auto half = missing_half(reader, names); !half.empty()) {
      single.warnings.push_back("running as a single process: " + half);
    }
  }
  if (reader.has("SLURM_PROCID") || reader.has("SLURM_NTASKS")) {
    single.warnings.push_back(
        "running as a single process: this shell has Slurm's variables but runs no step; use srun "
        "to "
        "start several ranks");
  }
  return single;
}

// A server is started beside the ranks, often with their environment: it needs the size of their
// world, and no rank.
RankEnv read_server(Reader& reader, int server) {
  RankEnv out;
  out.rank = -1;
  out.server = server;
  if (reader.has(kOwn.rank)) {
    reader.fail(std::string(kOwn.rank) +
                " and SYNCLINE_SERVER_ID are both set: a process is a rank or a server; unset one");
  }
  const Names& names = reader.has(kOwn.world_size) ? kOwn : kTorchrun;
  out.source = names.source;
  const auto size = reader.number(names.world_size, 1, kWorldSizeMax);
  if (size) {
    out.world_size = static_cast<int>(*size);
  } else {
    reader.fail("SYNCLINE_SERVER_ID is set but SYNCLINE_WORLD_SIZE is not");
  }
  return out;
}

RankEnv read_roles(Reader& reader) {
  const auto servers = reader.number("SYNCLINE_SERVERS", 0, kWorldSizeMax - 1);
  const auto id = reader.number("SYNCLINE_SERVER_ID", 0, kWorldSizeMax - 1);
  if (id && !servers) reader.fail("SYNCLINE_SERVER_ID is set but SYNCLINE_SERVERS is not");
  if (id && servers && *id >= *servers) {
    reader.fail("SYNCLINE_SERVER_ID=" + std::to_string(*id) + " is none of the " +
                std::to_string(*servers) + " servers of SYNCLINE_SERVERS");
  }
  RankEnv out = id ? read_server(reader, static_cast<int>(*id)) : read_first_complete(reader);
  out.servers = static_cast<int>(servers.value_or(0));
  out.aggregates = reader.number("SYNCLINE_SERVERS_AGGREGATE", 0, 1).value_or(0) == 1;
  if (out.processes() > kWorldSizeMax) {
    reader.fail("SYNCLINE_SERVERS=" + std::to_string(out.servers) + " and a world of " +
                std::to_string(out.world_size) + " make more than " +
                std::to_string(kWorldSizeMax) + " processes");
  }
  return out;
}

}  // namespace

std::string local_rendezvous_dir(const EnvLookup& lookup) {
  const auto runtime = lookup("XDG_RUNTIME_DIR");
  if (runtime && !runtime->empty()) return *runtime + "/syncline";
  return "/tmp/syncline-" + std::to_string(geteuid());
}

Result<RankEnv> discover_rank(const EnvLookup& lookup) {
  Reader reader(lookup);
  RankEnv out = read_roles(reader);
  if (!reader.status().ok()) return reader.status();
  if (out.world_size == 1 && out.server < 0) {
    out.local_rank = 0;
    out.local_world_size = 1;
  }
  find_rendezvous(reader, lookup, out);
  if (!reader.status().ok()) return reader.status();
  if (out.source != "single" && out.server < 0) {
    for (const Names& names : {kOwn, kTorchrun, kOmpi, kSlurm, kPmi}) {
      warn_of_other(reader, names, out);
    }
  }
  return out;
}

}  // namespace syncline::cluster
