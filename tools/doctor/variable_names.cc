#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "tools/doctor/checks.h"

namespace syncline::tools {
namespace {

constexpr std::string_view kKnown[] = {
    "SYNCLINE_RANK", "SYNCLINE_WORLD_SIZE", "SYNCLINE_LOCAL_RANK", "SYNCLINE_LOCAL_WORLD_SIZE",
    "SYNCLINE_SERVERS", "SYNCLINE_SERVERS_AGGREGATE", "SYNCLINE_SERVER_ID",
    "SYNCLINE_TCP_CONGESTION", "SYNCLINE_RUN_ID", "SYNCLINE_RENDEZVOUS", "SYNCLINE_RENDEZVOUS_FD",
    "SYNCLINE_KEY_FD", "SYNCLINE_KEY_FILE", "SYNCLINE_TRANSPORT", "SYNCLINE_IFNAME",
    "SYNCLINE_SOCKET_IFNAME", "SYNCLINE_PORT_RANGE", "SYNCLINE_SCHEDULE", "SYNCLINE_SILENCE_MS",
    "SYNCLINE_SUSPECT_MS", "SYNCLINE_TIMEOUT", "SYNCLINE_CONNECT_TIMEOUT", "SYNCLINE_INSECURE",
    "SYNCLINE_LOG", "SYNCLINE_BUCKET_CAP_MB", "SYNCLINE_RELEASE", "SYNCLINE_STALL_MS",
    "SYNCLINE_REPRODUCIBLE", "SYNCLINE_SEGMENT_BYTES", "SYNCLINE_FLIGHT", "SYNCLINE_FLIGHT_DIR",
    "SYNCLINE_FLIGHT_FD", "SYNCLINE_CONSISTENCY", "SYNCLINE_HOST_SUMS", "SYNCLINE_SCALE_BY_AGE",
    // options of `syncline train`
    "SYNCLINE_ACCUM", "SYNCLINE_AUGMENT", "SYNCLINE_BATCH", "SYNCLINE_DATA", "SYNCLINE_EPOCHS",
    "SYNCLINE_EVAL", "SYNCLINE_LABEL_SMOOTHING", "SYNCLINE_LR", "SYNCLINE_LR_SCHEDULE",
    "SYNCLINE_MAX_STEPS", "SYNCLINE_MODEL", "SYNCLINE_MOMENTUM", "SYNCLINE_OPTIMIZER",
    "SYNCLINE_PROGRESS", "SYNCLINE_SEED", "SYNCLINE_THREADS", "SYNCLINE_WARMUP",
    "SYNCLINE_WEIGHT_DECAY",
    // https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
    "NCCL_ALGO", "NCCL_ALLOC_P2P_NET_LL_BUFFERS", "NCCL_ASYNC_ERROR_HANDLING", "NCCL_BLOCKING_WAIT",
    "NCCL_BUFFSIZE", "NCCL_CGA_CLUSTER_SIZE", "NCCL_CHECKS_DISABLE", "NCCL_CHECK_POINTERS",
    "NCCL_COLLNET_ENABLE", "NCCL_COLLNET_NODE_THRESHOLD", "NCCL_COMM_BLOCKING", "NCCL_COMM_ID",
    "NCCL_CONF_FILE", "NCCL_CREATE_THREAD_CONTEXT", "NCCL_CROSS_NIC", "NCCL_CTA_POLICY",
    "NCCL_CUMEM_ENABLE", "NCCL_CUMEM_HOST_ENABLE", "NCCL_DEBUG", "NCCL_DEBUG_FILE",
    "NCCL_DEBUG_SUBSYS", "NCCL_DMABUF_ENABLE", "NCCL_GDR_FLUSH_DISABLE", "NCCL_GRAPH_DUMP_FILE",
    "NCCL_GRAPH_MIXING_SUPPORT", "NCCL_GRAPH_REGISTER", "NCCL_HOSTID", "NCCL_IB_ADAPTIVE_ROUTING",
    "NCCL_IB_ADDR_FAMILY", "NCCL_IB_ADDR_RANGE", "NCCL_IB_AR_THRESHOLD", "NCCL_IB_CUDA_SUPPORT",
    "NCCL_IB_DISABLE", "NCCL_IB_ECE_ENABLE", "NCCL_IB_FIFO_TC", "NCCL_IB_GID_INDEX", "NCCL_IB_HCA",
    "NCCL_IB_MERGE_NICS", "NCCL_IB_MERGE_VFS", "NCCL_IB_PCI_RELAXED_ORDERING", "NCCL_IB_PKEY",
    "NCCL_IB_QPS_PER_CONNECTION", "NCCL_IB_RETRY_CNT", "NCCL_IB_RETURN_ASYNC_EVENTS",
    "NCCL_IB_ROCE_VERSION_NUM", "NCCL_IB_SL", "NCCL_IB_SPLIT_DATA_ON_QPS", "NCCL_IB_TC",
    "NCCL_IB_TIMEOUT", "NCCL_IGNORE_CPU_AFFINITY", "NCCL_IGNORE_DISABLED_P2P", "NCCL_LAUNCH_MODE",
    "NCCL_LAUNCH_ORDER_IMPLICIT", "NCCL_LAUNCH_RACE_FATAL", "NCCL_LL_BUFFSIZE",
    "NCCL_LL128_BUFFSIZE", "NCCL_LOCAL_REGISTER", "NCCL_MAX_CTAS", "NCCL_MAX_NCHANNELS",
    "NCCL_MAX_NRINGS", "NCCL_MAX_P2P_NCHANNELS", "NCCL_MEM_SYNC_DOMAIN", "NCCL_MIN_CTAS",
    "NCCL_MIN_NCHANNELS", "NCCL_MIN_NRINGS", "NCCL_MIN_P2P_NCHANNELS", "NCCL_MNNVL_ENABLE",
    "NCCL_NCHANNELS_PER_NET_PEER", "NCCL_NET", "NCCL_NETDEVS_POLICY", "NCCL_NET_DISABLE_INTRA",
    "NCCL_NET_FORCE_FLUSH", "NCCL_NET_GDR_C2C", "NCCL_NET_GDR_LEVEL", "NCCL_NET_GDR_READ",
    "NCCL_NET_PLUGIN", "NCCL_NET_SHARED_BUFFERS", "NCCL_NET_SHARED_COMMS", "NCCL_NSOCKS_PERTHREAD",
    "NCCL_NTHREADS", "NCCL_NVB_DISABLE", "NCCL_NVLS_CHUNKSIZE", "NCCL_NVLS_ENABLE",
    "NCCL_NVLSTREE_MAX_CHUNKSIZE", "NCCL_OOB_NET_ENABLE", "NCCL_OOB_NET_IFNAME",
    "NCCL_P2P_DIRECT_DISABLE", "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_P2P_NET_CHUNKSIZE",
    "NCCL_P2P_NVL_CHUNKSIZE", "NCCL_P2P_PCI_CHUNKSIZE", "NCCL_P2P_PXN_LEVEL",
    "NCCL_P2P_USE_CUDA_MEMCPY", "NCCL_PROFILER_PLUGIN", "NCCL_PROGRAM_DIR", "NCCL_PROTO",
    "NCCL_PXN_C2C", "NCCL_PXN_DISABLE", "NCCL_RAS_ADDR", "NCCL_RAS_ENABLE",
    "NCCL_RAS_TIMEOUT_FACTOR", "NCCL_RINGS", "NCCL_RUNTIME_CONNECT", "NCCL_SET_STACK_SIZE",
    "NCCL_SET_THREAD_NAME", "NCCL_SHM_DISABLE", "NCCL_SHM_LOCALITY", "NCCL_SHM_MEMCPY_MODE",
    "NCCL_SHM_USE_CUDA_MEMCPY", "NCCL_SINGLE_RING_THRESHOLD", "NCCL_SOCKET_FAMILY",
    "NCCL_SOCKET_IFNAME", "NCCL_SOCKET_NTHREADS", "NCCL_SOCKET_RETRY_CNT",
    "NCCL_SOCKET_RETRY_SLEEP_MSEC", "NCCL_SYM_CTAS", "NCCL_TOPO_DUMP_FILE", "NCCL_TOPO_FILE",
    "NCCL_TREE_THRESHOLD", "NCCL_TUNER_PLUGIN", "NCCL_UID_STAGGER_RATE",
    "NCCL_UID_STAGGER_THRESHOLD", "NCCL_VERSION", "NCCL_WARN_ENABLE_DEBUG_INFO", "NCCL_WIN_ENABLE",
    "NCCL_WORK_ARGS_BYTES", "NCCL_WORK_FIFO_BYTES", "NCCL_WORK_FIFO_DEPTH"};

// Levenshtein's distance.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

bool is_known_variable(std::string_view name) {
  return std::find(std::begin(kKnown), std::end(kKnown), name) != std::end(kKnown);
}

std::string nearest_variable(std::string_view name) {
  constexpr std::size_t kDistanceMax = 4;
  std::string best;
  std::size_t best_distance = kDistanceMax + 1;
  for (const std::string_view known : kKnown) {
    const std::size_t d = distance(name, known);
    if (d < best_distance) {
      best_distance = d;
      best = known;
    }
  }
  return best;
}

void check_environment_names(Findings& findings) {
  bool clean = true;
  for_each_env([&](const std::string& name, const std::string&) {
    if (!(name.starts_with("NCCL_") || name.starts_with("SYNCLINE_")) || is_known_variable(name))
      return;
    clean = false;
    const std::string near = nearest_variable(name);
    findings.push_back(
        {Level::kWarn, "variables",
         near.empty()
             ? fmt::format("{} is unknown: nothing reads it", name)
             : fmt::format("{} is unknown: nothing reads it; did you mean {}?", name, near),
         fmt::format("unset {}", name)});
  });
  if (clean)
    findings.push_back({Level::kOk, "variables", "no unknown SYNCLINE_* or NCCL_* names", ""});
}

}  // namespace syncline::tools
