#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <fstream>

#include "base/clock.h"
#include "cluster/interfaces.h"
#include "fmt/format.h"
#include "kernels/reduce.h"
#include "tools/doctor/checks.h"
#include "tools/run/cpus.h"

namespace syncline::tools {
namespace {

constexpr Nanos kLookupLimit = 2 * kSecond;
constexpr double kShmBytesWanted = 64e6;  // 8 MiB of staging for each of eight ranks

enum class Lookup { kFound, kUnknown, kSlow };

// In a child process: a resolver that hangs must not hang us.
Lookup look_up(const std::string& name) {
  const pid_t child = fork();
  if (child == 0) {
    addrinfo* list = nullptr;
    _exit(getaddrinfo(name.c_str(), nullptr, nullptr, &list) == 0 ? 0 : 1);
  }
  int status = 0;
  for (const Nanos limit = monotonic_now() + kLookupLimit; monotonic_now() < limit;
       ::poll(nullptr, 0, 2)) {
    if (waitpid(child, &status, WNOHANG) == child) {
      return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? Lookup::kFound : Lookup::kUnknown;
    }
  }
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return Lookup::kSlow;
}

void check_host_name(Findings& findings) {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  const Lookup result = look_up(name);
  if (result == Lookup::kFound) {
    findings.push_back({Level::kOk, "host name", fmt::format("{} resolves", name), ""});
    return;
  }
  findings.push_back(
      {Level::kWarn, "host name",
       fmt::format("{} {}; Gloo and MPI need it", name,
                   result == Lookup::kSlow ? "takes over 2 s to resolve" : "does not resolve"),
       fmt::format("echo \"127.0.1.1 {}\" >> /etc/hosts", name)});
}

void check_interfaces(Findings& findings) {
  const Result<cluster::InterfaceFilter> filter = cluster::interface_filter("", env);
  const auto all = filter.ok() ? cluster::list_interfaces() : filter.status();
  const auto usable =
      all.ok() ? cluster::select_interfaces(all.value(), filter.value()) : all.status();
  if (!usable.ok()) {
    const bool chosen = filter.ok() && filter.value().given();
    findings.push_back({chosen || !filter.ok() ? Level::kFail : Level::kWarn, "interfaces",
                        usable.status().message(),
                        chosen ? "unset SYNCLINE_IFNAME, or name an interface of `ip addr`"
                               : "ip addr shows what there is; jobs on this host alone need none"});
    return;
  }
  std::string text;
  for (const cluster::Interface& entry : usable.value()) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", entry.name, entry.address.host());
  }
  findings.push_back({Level::kOk, "interfaces", "for other hosts, best first: " + text, ""});
}

void check_limit(Findings& findings, int resource, const char* topic, rlim_t wanted,
                 const char* why, const char* fix) {
  rlimit limit{};
  getrlimit(static_cast<__rlimit_resource>(resource), &limit);
  const std::string value =
      limit.rlim_cur == RLIM_INFINITY ? "unlimited" : fmt::to_string(limit.rlim_cur);
  if (limit.rlim_cur >= wanted) {
    findings.push_back({Level::kOk, topic, value, ""});
  } else {
    findings.push_back({Level::kWarn, topic, fmt::format("{}; {}", value, why), fix});
  }
}

}  // namespace

void check_network(Findings& findings) {
  check_host_name(findings);
  check_interfaces(findings);
}

void check_memory(Findings& findings) {
  const int memory = memfd_create("syncline-doctor", MFD_CLOEXEC);
  if (memory >= 0) close(memory);
  struct statvfs shm {};
  const bool has_shm = statvfs("/dev/shm", &shm) == 0;
  const double bytes =
      has_shm ? static_cast<double>(shm.f_bavail) * static_cast<double>(shm.f_frsize) : 0;
  const std::string text = fmt::format("/dev/shm has {:.0f} MB free, memfd {}", bytes / 1e6,
                                       memory >= 0 ? "works" : "is missing");
  if (memory >= 0) {
    findings.push_back({Level::kOk, "shared memory", text, ""});
  } else if (bytes >= kShmBytesWanted) {
    findings.push_back({Level::kWarn, "shared memory", text, ""});
  } else {
    findings.push_back({Level::kFail, "shared memory", text, "mount -o remount,size=1G /dev/shm"});
  }
  check_limit(findings, RLIMIT_NOFILE, "open files", 1024, "a rank needs about four per peer",
              "ulimit -n 4096");
  check_limit(findings, RLIMIT_MEMLOCK, "locked memory", 64 << 20,
              "enough for TCP and shared memory, not for RDMA", "ulimit -l unlimited");
}

void check_processor(Findings& findings) {
  const int cores = usable_cores();
  const auto threads = env("OMP_NUM_THREADS");
  int wanted = 0;
  if (threads) std::from_chars(threads->data(), threads->data() + threads->size(), wanted);
  if (wanted > cores) {
    findings.push_back({Level::kWarn, "cores",
                        fmt::format("{} usable, but OMP_NUM_THREADS={}", cores, *threads),
                        fmt::format("export OMP_NUM_THREADS={}", cores)});
  } else {
    findings.push_back({Level::kOk, "cores",
                        fmt::format("{} usable, OMP_NUM_THREADS {}", cores,
                                    threads.value_or("unset (run sets it)")),
                        ""});
  }
  findings.push_back({Level::kOk, "instructions",
                      fmt::format("reductions run with {}", kernels::target_name()), ""});
  std::string source = "unknown";
  std::ifstream file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  file >> source;
  const bool fast = source == "tsc" || source == "kvm-clock" || source == "arch_sys_counter";
  findings.push_back(
      {fast || source == "unknown" ? Level::kOk : Level::kWarn, "clock",
       fmt::format("source {}{}", source, fast ? "" : ": reading it may be a slow system call"),
       fast || source == "unknown"
           ? ""
           : "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource"});
}

}  // namespace syncline::tools
