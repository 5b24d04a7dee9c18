#include "cluster/processes.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <vector>

namespace syncline::cluster {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kGenerationsMax = 256;
constexpr const char* kListening = "0A";  // /proc/net/tcp's number for the state

// From the process up to the first one; empty if it is gone.
std::vector<int> lineage(int pid) {
  std::vector<int> found;
  while (pid > 0 && found.size() < kGenerationsMax) {
    std::string text;
    std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/stat"), text);
    // pid (name) state parent ...; a name may hold anything, parentheses too.
    const auto name_end = text.rfind(')');
    if (name_end == std::string::npos) break;
    found.push_back(pid);
    char state = 0;
    std::istringstream(text.substr(name_end + 1)) >> state >> pid;
  }
  return found;
}

// "socket:[inode]" of the sockets that listen on the port.
std::set<std::string> listening_sockets(std::uint16_t port) {
  std::set<std::string> found;
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    while (std::getline(file, line)) {
      std::istringstream words(line);
      std::string number, local, remote, state, queues, timer, resent, user, timeout, inode;
      words >> number >> local >> remote >> state >> queues >> timer >> resent >> user >> timeout;
      words >> inode;
      const std::string hex = local.substr(local.find(':') + 1);
      unsigned here = 0;
      std::from_chars(hex.data(), hex.data() + hex.size(), here, 16);
      if (state == kListening && here == port) found.insert("socket:[" + inode + "]");
    }
  }
  return found;
}

}  // namespace

int common_ancestors(int pid, int other) {
  const std::vector<int> one = lineage(pid), two = lineage(other);
  const auto differ = std::mismatch(one.rbegin(), one.rend(), two.rbegin(), two.rend());
  return static_cast<int>(differ.first - one.rbegin());
}

std::string listener_on_port(std::uint16_t port) {
  const std::set<std::string> sockets = listening_sockets(port);
  if (sockets.empty()) return "";
  std::error_code error;
  for (const auto& process : fs::directory_iterator("/proc", error)) {
    const std::string pid = process.path().filename();
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    std::error_code hidden;
    auto fd = fs::directory_iterator(process.path() / "fd", hidden);
    for (; !hidden && fd != fs::directory_iterator(); fd.increment(hidden)) {
      std::error_code gone;
      if (sockets.count(fs::read_symlink(fd->path(), gone)) == 0) continue;
      std::string name;
      std::getline(std::ifstream(process.path() / "comm"), name);
      return "pid " + pid + " (" + name + ")";
    }
  }
  return "";
}

}  // namespace syncline::cluster
