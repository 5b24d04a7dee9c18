#include "cluster/host_identity.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

namespace syncline::cluster {

std::string host_id() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  if (boot.empty()) boot = "boot?" + host_name();  // no /proc: the name must do
  struct stat info {};
  if (::stat("/proc/self/ns/net", &info) != 0) return boot + "/0";
  return boot + "/" + std::to_string(info.st_ino);
}

std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "unnamed-host";
  return name;
}

}  // namespace syncline::cluster
