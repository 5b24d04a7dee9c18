#include <filesystem>
#include <fstream>
#include <sstream>

#include "fmt/format.h"
#include "tools/doctor/checks.h"

namespace syncline::tools {
namespace {

namespace fs = std::filesystem;

bool exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

struct Package {
  const char* name;
  const char* file;  // one that it installs
  const char* why;
};

constexpr Package kPackages[] = {
    {"libtorch-dev", "/usr/include/torch/csrc/api/include/torch/torch.h",
     "training (DDP, syncline train)"},
    {"libhwy-dev", "/usr/include/hwy/highway.h", "building"},
    {"libssl-dev", "/usr/include/openssl/evp.h", "building"},
    {"libcli11-dev", "/usr/include/CLI/CLI.hpp", "building the tools"},
    {"nlohmann-json3-dev", "/usr/include/nlohmann/json.hpp", "building the tools"},
    {"libfmt-dev", "/usr/include/fmt/format.h", "building"},
    {"dataset-fashion-mnist", "/usr/share/datasets/fashion-mnist", "the demo's images"},
    {"openssh-client", "/usr/bin/ssh", "`syncline run` on other hosts"},
};

void check_python_torch(Findings& findings) {
  std::ifstream file("/usr/lib/python3/dist-packages/torch/version.py");
  std::string version;
  for (std::string line; std::getline(file, line);) {
    if (line.find("__version__ =") == std::string::npos) continue;
    const std::size_t begin = line.find_first_of("'\"");
    version = line.substr(begin + 1, line.find_last_of("'\"") - begin - 1);
  }
  if (version.empty()) return;
  if (version.starts_with("1.13") && exists("/usr/bin/python3.11")) {
    findings.push_back(
        {Level::kWarn, "python torch",
         fmt::format(
             "{} with Python 3.11: its torchrun fails without redirects; syncline run works",
             version),
         "torchrun --redirects 1 --tee 1 ..."});
  } else {
    findings.push_back({Level::kOk, "python torch", version, ""});
  }
}

}  // namespace

std::string defined_in(const std::string& header, const std::string& name) {
  std::ifstream file(header);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string directive, macro, value;
    if (words >> directive >> macro >> value && directive == "#define" && macro == name)
      return value;
  }
  return "";
}

void check_packages(Findings& findings) {
  std::string present;
  for (const Package& package : kPackages) {
    if (exists(package.file)) {
      present += fmt::format("{}{}", present.empty() ? "" : ", ", package.name);
    } else {
      findings.push_back({Level::kWarn, "packages",
                          fmt::format("{} is missing; it serves {}", package.name, package.why),
                          fmt::format("apt-get install {}", package.name)});
    }
  }
  findings.push_back({Level::kOk, "packages", present.empty() ? "none" : present, ""});
  check_python_torch(findings);
}

}  // namespace syncline::tools
